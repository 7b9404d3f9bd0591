package registry

import (
	"fmt"
	"strconv"
	"strings"
)

// Names of objects. FORMAT.md says the same in prose.
const (
	root        = "registry/"
	modelsDir   = root + "_models/" // not a valid model name
	claimFile   = "claim.json"
	versionFile = "version.json"
	deletedFile = "deleted.json"
	jsonSuffix  = ".json"
)

func modelObject(model string) string    { return modelsDir + model + jsonSuffix }
func versionsDir(model string) string    { return root + model + "/versions/" }
func keyObject(model, key string) string { return root + model + "/keys/" + key + jsonSuffix }
func aliasesDir(model string) string     { return root + model + "/aliases/" }
func remarksDir(model string) string     { return root + model + "/remarks/" }
func historyDir(model string) string     { return root + model + "/history/" }

func versionDir(model string, number int) string {
	return versionsDir(model) + strconv.Itoa(number) + "/"
}

func aliasObject(model, alias string) string { return aliasesDir(model) + alias + jsonSuffix }

func remarksObject(model string, number int) string {
	return remarksDir(model) + strconv.Itoa(number) + jsonSuffix
}

func deletedObject(model string, number int) string { return versionDir(model, number) + deletedFile }

func eventObject(model, alias string, sequence int) string {
	return fmt.Sprintf("%s%s/%08d%s", historyDir(model), alias, sequence, jsonSuffix)
}

// otherObject is the name of a file's object if its regular name is taken by other bytes, left behind by a failed
// attempt.
func otherObject(model string, number int, name, sha256 string) string {
	return versionDir(model, number) + "other/" + sha256[:16] + "/" + name
}

// parseNumber reads a version number in its canonical spelling.
func parseNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxNumber && strconv.Itoa(n) == text
}

// parseVersionObject splits the name of an object under versionsDir.
func parseVersionObject(model, object string) (number int, rest string, ok bool) {
	text, found := strings.CutPrefix(object, versionsDir(model))
	number0, rest, slash := strings.Cut(text, "/")
	number, valid := parseNumber(number0)
	return number, rest, found && slash && valid
}

// parseEventObject splits the name of an object under historyDir.
func parseEventObject(model, object string) (alias string, sequence int, ok bool) {
	text, found := strings.CutPrefix(object, historyDir(model))
	alias, file, slash := strings.Cut(text, "/")
	digits, suffix := strings.CutSuffix(file, jsonSuffix)
	sequence, err := strconv.Atoi(digits)
	if !found || !slash || !suffix || err != nil || sequence < 1 || checkAlias(alias) != nil {
		return "", 0, false
	}
	return alias, sequence, eventObject(model, alias, sequence) == object
}

// parseAliasObject splits the name of an object under aliasesDir.
func parseAliasObject(model, object string) (alias string, ok bool) {
	text, found := strings.CutPrefix(object, aliasesDir(model))
	alias, suffix := strings.CutSuffix(text, jsonSuffix)
	return alias, found && suffix && checkAlias(alias) == nil
}

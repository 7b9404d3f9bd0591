package program

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// explain changes cmd and all its subcommands so that they check their command lines and name what is wrong. A command
// without Args of its own takes the arguments in its Use line. Errors about arguments are reworded (wrongArguments),
// and empty flags are refused (refuseEmpty).
func explain(cmd *cobra.Command) {
	if cmd.Args == nil && cmd.RunE != nil {
		cmd.Args = checkArguments(arguments(cmd.Use))
	}
	if validate := cmd.Args; validate != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := validate(cmd, args); err != nil {
				return wrongArguments(cmd, args, err)
			}
			return nil
		}
	}

	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd); err != nil {
				return err
			}
			return run(cmd, args)
		}
	}

	for _, child := range cmd.Commands() {
		explain(child)
	}
}

// refuseEmpty returns an error if a flag is given with an empty value, such as --id "$ID" in a shell in which ID is not
// set: it would mean the same as no flag at all. For numeric flags there is RefuseZero, which each command calls
// itself.
func refuseEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.DefValue != "" && f.DefValue != "[]" {
			return // empty differs from the default and is valid, such as --metrics "" for none
		}
		if list, ok := f.Value.(pflag.SliceValue); f.Value.String() == "" || ok &&
			!slices.ContainsFunc(list.GetSlice(), func(s string) bool { return s != "" }) {
			err = Usagef("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// RefuseZero returns an error if one of the named flags, which cmd must have, is given as 0. It is for flags whose 0
// stands for a default.
func RefuseZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if value := f.Value.String(); f.Changed && (value == "0" || value == "0s") {
			return Usagef("--%s is %s: give it a larger value, or leave it out", name, value)
		}
	}
	return nil
}

// wrongArguments returns an error about a wrong number of arguments that names those in the command's Use line. err is
// what the command's own check said; if it is a usage error already, or about an unknown command, it is returned as it
// is.
func wrongArguments(cmd *cobra.Command, args []string, err error) error {
	names, given := arguments(cmd.Use), len(args)
	if problem.Is(err, problem.Usage) {
		return err
	}
	if len(names) == 0 {
		if cmd.HasSubCommands() {
			return err // an unknown command
		}
		return Usagef("unexpected argument %q: %s takes flags only", args[0], cmd.CommandPath())
	}
	line := cmd.CommandPath() + " " + strings.Join(names, " ")
	if given < len(names) {
		return Usagef("give %s: %s", strings.Join(names[given:], " "), line)
	}
	most := ""
	if strings.HasPrefix(names[len(names)-1], "[") { // it may be left out
		most = "at most "
	}
	return Usagef("expected %s%s, got %d: %s", most, english.Plural(len(names), "argument", ""), given, line)
}

// checkArguments returns a check of the number of arguments for the names in a Use line. Names in brackets may be left
// out, and dots in the last name stand for any number.
func checkArguments(names []string) cobra.PositionalArgs {
	// How many are needed is the index of the first name in brackets; -1 if all are.
	least := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "[") })
	switch last := len(names) - 1; {
	case last < 0:
		return cobra.NoArgs
	case strings.Contains(names[last], "..."):
		if least < 0 {
			least = len(names)
		}
		return cobra.MinimumNArgs(least)
	case least < 0:
		return cobra.ExactArgs(len(names))
	}
	return cobra.RangeArgs(least, len(names))
}

// arguments returns the words of a Use line after the command's name, up to the first flag.
func arguments(use string) []string {
	_, rest, _ := strings.Cut(use, " ")
	words := strings.Fields(rest)
	for i, word := range words {
		if strings.HasPrefix(strings.TrimPrefix(word, "["), "-") {
			return words[:i]
		}
	}
	return words
}

// unknownCommand turns cobra's error about an unknown command into a usage error that suggests the most similar
// command. Other errors are returned as they are.
func unknownCommand(cmd *cobra.Command, err error) error {
	var word string
	if n, _ := fmt.Sscanf(err.Error(), "unknown command %q", &word); n == 0 || !cmd.HasSubCommands() {
		return err
	}
	var known []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			known = append(known, child.Name())
		}
	}
	return Usagef("%w%s", err, strictyaml.Suggest(word, known))
}

// wrongFlag turns an error about a flag into a usage error. For an unknown flag it suggests the most similar one, and
// for a wrong value it says what the flag takes.
func wrongFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		name, takes := invalid.GetFlag().Name, invalid.GetFlag().Value.Type()
		if words := expected[takes]; words != "" { // pflag has the words of package strconv
			return Usagef("--%s %q: expected %s", name, invalid.GetValue(), words)
		}
		return problem.As(problem.Usage, err)
	}
	var unknown *pflag.NotExistError
	// A mistyped -x is like no flag in particular, so nothing is suggested.
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return problem.As(problem.Usage, err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	// Suggest compares keys of YAML, which have _ where flags have -.
	hint := strictyaml.Suggest(strings.ReplaceAll(unknown.GetSpecifiedName(), "-", "_"), known)
	return Usagef("%w%s", err, dashes.Replace(hint))
}

// dashes gives the names in a suggestion the dashes of flags.
var dashes = strings.NewReplacer(`mean "`, `mean "--`, "known: ", "known: --", ", ", ", --")

// expected says what a flag of a type takes.
var expected = map[string]string{"int": "a whole number", "int64": "a whole number",
	"uint64":  "a whole number, 0 or more",
	"float64": "a number", "bool": "true or false", "duration": "a duration such as 90s, 15m or 2h"}

// missingFlags turns cobra's error about required flags into a usage error with their names as they are typed. Other
// errors are returned as they are.
func missingFlags(cmd *cobra.Command, err error) error {
	names, found := strings.CutPrefix(err.Error(), "required flag(s) ")
	if !found {
		return err
	}
	var flags []string
	for _, name := range strings.Split(strings.TrimSuffix(names, " not set"), ", ") {
		flags = append(flags, "--"+strings.Trim(name, `"`))
	}
	return Usagef("give %s: %s %s", english.OxfordWordSeries(flags, "and"),
		strings.TrimSuffix(cmd.CommandPath(), " "+cmd.Name()), cmd.Use)
}

package quote

import (
	"errors"
	"io/fs"
	"path/filepath"

	"coppice/internal/machines"
	"coppice/internal/strictyaml"
)

// PricesFile is this user's file of prices, by an environment's lookup; false if there is no folder for one.
func PricesFile(env func(string) (string, bool)) (string, bool) {
	if path, ok := env("COPPICE_PRICES"); ok && path != "" {
		return path, true
	}
	if dir, ok := env("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "coppice", "prices.json"), true
	}
	if home, ok := env("HOME"); ok && filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "coppice", "prices.json"), true
	}
	return "", false
}

// Prices merges the prices of the file, or of PricesFile, and the embedded ones, newer ones first. A file that was
// named explicitly must exist.
func Prices(file string, env func(string) (string, bool)) (*machines.Prices, error) {
	embedded := machines.Embedded()
	named := file != ""
	if !named {
		path, _ := env("COPPICE_PRICES")
		named = path != "" // an empty setting counts as unset
		var ok bool
		if file, ok = PricesFile(env); !ok {
			return embedded, nil
		}
	}

	p, err := ReadPrices(file)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return embedded, nil
	}
	if err != nil {
		return nil, err
	}
	return p.Over(embedded), nil
}

// ReadPrices reads a file of prices.
func ReadPrices(file string) (*machines.Prices, error) {
	data, err := strictyaml.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return machines.ReadPrices(file, data)
}

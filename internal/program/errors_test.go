package program_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/calibrate"
	"coppice/internal/cloud"
	"coppice/internal/cloud/batch"
	"coppice/internal/cloud/billing"
	"coppice/internal/cloud/idtoken"
	"coppice/internal/cloud/tracking"
	"coppice/internal/cloud/webhook"
	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/ingest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/machines"
	"coppice/internal/metric"
	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/search"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/terraform"
)

var errCause = errors.New("the cause")

// known is every exported type of error of the packages below the programs, and the exit code of a program that ends
// with it.
var known = []struct {
	err  error
	want int
}{
	{&program.UsageError{Err: errCause}, sweep.ExitUsage},
	{&strictyaml.Error{File: "f"}, sweep.ExitInput},
	{&sweep.NameError{}, sweep.ExitInput},
	{&sweep.DecodeError{Err: errCause}, sweep.ExitInput},
	{&sweepstore.DamagedError{Err: &sweep.DecodeError{Err: errCause}}, sweep.ExitInput},
	{&sweepstore.FileError{Err: errCause}, sweep.ExitError},
	{&nights.DamagedError{Err: errCause}, sweep.ExitInput},
	{&dataset.ManifestError{Err: errCause}, sweep.ExitInput},
	{&dataset.FormatError{}, sweep.ExitInput},
	{&dataset.CorruptError{}, sweep.ExitInput},
	{&encode.TooManyValuesError{}, sweep.ExitError},
	{&ingest.TableError{}, sweep.ExitInput},
	{&ingest.NotFoundError{}, sweep.ExitNotFound},
	{&ingest.ExistsError{}, sweep.ExitConflict},
	{&gbt.ParamError{}, sweep.ExitInput},
	{&gbt.ModelError{}, sweep.ExitInput},
	{&gbt.InputError{}, sweep.ExitInput},
	{&fit.InputError{}, sweep.ExitInput},
	{&gbt.CheckpointError{}, sweep.ExitError},
	{&metric.UnknownError{}, sweep.ExitInput},
	{&metric.ArgumentError{}, sweep.ExitInput},
	{&metric.RangeError{}, sweep.ExitInput},
	{&metric.InputError{Err: errCause}, sweep.ExitInput},
	{&calibrate.DataError{Err: errCause}, sweep.ExitError},
	{&calibrate.MethodError{}, sweep.ExitError},
	{&calibrate.DecodeError{Err: errCause}, sweep.ExitInput},
	{&search.SpecError{Err: errCause}, sweep.ExitInput},
	{&search.TooManyError{}, sweep.ExitInput},
	{&search.SpaceError{}, sweep.ExitInput},
	{&search.ExpressionError{}, sweep.ExitInput},
	{&search.ReplayError{}, sweep.ExitError},
	{&search.ExhaustedError{}, sweep.ExitInput},
	{&search.NoChoiceError{}, sweep.ExitError},
	{&search.SelectedError{}, sweep.ExitError},
	{&registry.InputError{}, sweep.ExitInput},
	{&registry.CorruptError{Err: errCause}, sweep.ExitInput},
	{&registry.ConflictError{}, sweep.ExitConflict},
	{&registry.NotFoundError{}, sweep.ExitNotFound},
	{&registry.NoPreviousError{}, sweep.ExitNotFound},
	{&registry.BadError{}, sweep.ExitConflict},
	{&registry.InUseError{}, sweep.ExitConflict},
	{&registry.DeletedError{}, sweep.ExitNotFound},
	{&scorer.UnfitError{Err: errCause}, sweep.ExitError},
	{&machines.UnknownError{}, sweep.ExitInput},
	{&machines.DiskError{}, sweep.ExitInput},
	{&terraform.DeniedError{}, sweep.ExitError},
	{&cloud.SetupError{}, sweep.ExitSetup},
	{&cloud.PermissionError{}, sweep.ExitSetup},
	{&batch.GoneError{}, sweep.ExitError},
	{&billing.CatalogError{}, sweep.ExitError},
	{&webhook.RefusedError{}, sweep.ExitError},
	{&tracking.RefusedError{Status: 401}, sweep.ExitSetup},
	{&idtoken.TokenError{Err: errCause}, sweep.ExitError},
	{&idtoken.CallerError{}, sweep.ExitError},
	{&idtoken.KeysError{Err: errCause}, sweep.ExitError},
}

// elsewhere are types whose exit code is pinned beside the one program that can end with them.
var elsewhere = []string{"gbt.MismatchError", "batch.RuleError", "batch.ConflictError"}

// TestEveryErrorHasItsExitCode pins exit codes, which are an interface: of each type by itself, wrapped, and joined to
// what has no class.
func TestEveryErrorHasItsExitCode(t *testing.T) {
	for _, tc := range known {
		for how, err := range map[string]error{"itself": tc.err, "wrapped": fmt.Errorf("a: %w", tc.err),
			"joined": errors.Join(errCause, tc.err)} {
			if code := program.ExitCode(context.Background(), err); code != tc.want {
				t.Errorf("%T, %s: exit code %d, expected %d", tc.err, how, code, tc.want)
			}
		}
	}

	for err, want := range map[error]int{
		errCause:                                          sweep.ExitError,
		fs.ErrNotExist:                                    sweep.ExitNotFound,
		gbt.ErrData:                                       sweep.ExitInput,
		fmt.Errorf("%w: the label", gbt.ErrData):          sweep.ExitInput,
		&cloud.SetupError{Err: fs.ErrNotExist}:            sweep.ExitSetup,
		&dataset.ManifestError{Err: fs.ErrNotExist}:       sweep.ExitInput,
		&ingest.TableError{Err: &cloud.PermissionError{}}: sweep.ExitSetup,
		&scorer.UnfitError{Err: &registry.CorruptError{Err: errCause}}:                sweep.ExitInput,
		&scorer.UnfitError{Err: &registry.NotFoundError{}}:                            sweep.ExitNotFound,
		&sweepstore.FileError{Err: fs.ErrNotExist}:                                    sweep.ExitNotFound,
		errors.Join(&registry.NotFoundError{}, &gbt.ParamError{}):                     sweep.ExitInput,
		errors.Join(&registry.NotFoundError{}, &registry.ConflictError{}):             sweep.ExitConflict,
		errors.Join(&gbt.ParamError{}, program.Usagef("--n"), &registry.InputError{}): sweep.ExitUsage,
	} {
		if code := program.ExitCode(context.Background(), err); code != want {
			t.Errorf("%T %v: exit code %d, expected %d", err, err, code, want)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for err, want := range map[error]int{errCause: sweep.ExitInterrupt, &gbt.ParamError{}: sweep.ExitInput} {
		if code := program.ExitCode(ctx, err); code != want {
			t.Errorf("%v, interrupted: exit code %d, expected %d", err, code, want)
		}
	}
}

// TestNoErrorIsForgotten reads the sources: every type of error must decide how a program ends with it.
func TestNoErrorIsForgotten(t *testing.T) {
	listed := slices.Clone(elsewhere)
	for _, tc := range known {
		listed = append(listed, strings.TrimPrefix(fmt.Sprintf("%T", tc.err), "*"))
	}

	stages := []string{"launcher", "task", "aggregator", "localemu", "examples", "bench", "container", "python",
		"build", "bin", "problem"}
	name := regexp.MustCompile(`^([A-Z][A-Za-z]*)?Error$`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "../.." && (slices.Contains(stages, d.Name()) || d.Name() == "testdata" ||
			d.Name()[0] == '.') {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "Error" {
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			ident, ok := of.(*ast.Ident)
			if !ok || !name.MatchString(ident.Name) {
				continue
			}
			found++
			if full := file.Name.Name + "." + ident.Name; !slices.Contains(listed, full) {
				t.Errorf("%s: %s has no exit code in the table of this test", path, full)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found != len(listed) {
		t.Errorf("%d types of errors found, %d listed", found, len(listed))
	}
}

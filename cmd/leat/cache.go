package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

// cacheFlags are what the commands of leat cache take; each has some of them.
type cacheFlags struct {
	json, remote, overwrite bool
	maxBytes, durability    string
	done                    atomic.Int64 // bytes that a long operation has gone through
}

// cacheCommand is leat cache.
func cacheCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cache",
		Short: "Make, fill, look at and convert caches that processes share",
		Long: `Cache works on the cache files that data loaders share: n numbered slots in one file. Each slot
takes one entry of any length, once. Programs use them through the Go package leat/cache, all processes of a machine at
the same time; these commands may run meanwhile.

Data go to standard output, messages to standard error. The exit code is 0 for success, 1 for a failure, 2 for a
mistake in the command line.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// A number below 0 looks like an option.
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && strings.Trim(unknown.GetSpecifiedName(), "0123456789") == "" {
			return usagef("-%s: numbers of slots begin at 0, and a cache has one slot or more",
				unknown.GetSpecifiedShortnames())
		}
		return usageError{flagError(c, err, nil)}
	})
	c.AddCommand(
		cacheCreateCommand(), cacheStatCommand(), cacheListCommand(), cacheGetCommand(), cachePutCommand(),
		cacheCheckCommand(),
		cachePreserveCommand(), cacheUpgradeCommand(), cacheImportCommand(),
		cacheExportCommand(), cacheCollectCommand(),
	)
	return c
}

// newCacheCommand returns a command with as many arguments as use has words in capitals; those in
// brackets are optional.
func newCacheCommand(use, short, long, example string,
	run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	var least, most int
	for _, word := range strings.Fields(use)[1:] {
		if most++; !strings.HasPrefix(word, "[") {
			least++
		}
	}
	name, params, _ := strings.Cut(use, " ")
	return &cobra.Command{
		Use: use + " [options]", DisableFlagsInUseLine: true, Short: short, Long: long, Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < least:
				first, _, _ := strings.Cut(strings.TrimSpace(example), "\n")
				return usagef("cache %s takes %s, such as: %s", name, params, first)
			case len(args) > most && most == 0:
				return usagef("cache %s takes no argument: %q", name, args[most])
			case len(args) > most:
				return usagef("cache %s takes %s and nothing more: %q", name, params, args[most])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, args) },
	}
}

func (f *cacheFlags) addJSON(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.json, "json", false, usage)
}

func (f *cacheFlags) addRemote(c *cobra.Command) {
	c.Flags().BoolVar(&f.remote, "allow-remote", false,
		"take a file system that is not known to be local (FUSE, network): only if all processes that use the file run on this machine")
}

func (f *cacheFlags) addOverwrite(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace "+what+" if it exists")
}

// openCache opens an existing cache, and returns what it was before: a preserved one for reading,
// another one as programs do.
func openCache(path string, f *cacheFlags) (*cache.Cache, cache.Info, error) {
	info, err := inspectCache(path)
	if err != nil {
		return nil, info, err
	}
	if info.Preserved {
		c, err := cache.Load(path, &cache.Options{Progress: f.done.Store})
		return c, info, err
	}
	c, err := cache.Open(path, info.Slots, &cache.Options{AllowRemote: f.remote, Progress: f.done.Store})
	if err == nil && c.UUID() != info.UUID {
		return nil, info, errors.Join(fmt.Errorf("%s was replaced by another one at this moment: try again", path),
			c.Close())
	}
	return c, info, err
}

// readCache opens an existing cache for a command that only reads it.
func readCache(path string, f *cacheFlags) (*cache.Cache, cache.Info, error) {
	c, info, err := openCache(path, f)
	if !info.Preserved && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) && info.Slots > 0 {
		err = hintedError{err, "who can't write to a cache can read it once it is preserved (leat cache preserve)"}
	}
	return c, info, err
}

// of returns the progress of an operation that goes through the records of a cache, as
// Options.Progress counts them, and writes an index of so many bytes.
func (f *cacheFlags) of(info cache.Info, index int64) func() (done, total int64) {
	total := max(info.Bytes-cache.FileSize(info.Slots), 0) + index
	return func() (int64, int64) { return f.done.Load(), total }
}

// inspectCache describes a cache that must exist.
func inspectCache(path string) (cache.Info, error) {
	info, err := cache.Inspect(path)
	if err != nil {
		switch st, err1 := os.Lstat(path); {
		case errors.Is(err1, fs.ErrNotExist):
			err = fmt.Errorf("%s: there is no such file", path)
		case err1 == nil && st.IsDir():
			err = fmt.Errorf("%s is a directory: give the name of a cache", path)
		}
	}
	return info, err
}

// slotCount reads N.
func slotCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > cache.MaxSlots {
		return 0, usagef("%s slots: give a whole number from 1 to %d", text, int64(cache.MaxSlots))
	}
	return n, nil
}

// slotNumber reads INDEX.
func slotNumber(text string) (int64, error) {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || i < 0 {
		return 0, usagef("slot %s: give a whole number; the first slot is 0", text)
	}
	return i, nil
}

// inCache checks INDEX against the file.
func inCache(path string, i, n int64) error {
	if i >= n {
		return usagef("slot %d: %s has %s, the last is %d", i, path, units.Count(n, "slot"), n-1)
	}
	return nil
}

func entriesText(n int64) string { return units.Plural(n, "entry", "entries") }

// refuseLink returns an error if path is a symbolic link, which what would replace.
func refuseLink(path, what string) error {
	if st, err := os.Lstat(path); err != nil || st.Mode()&os.ModeSymlink == 0 {
		return nil
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is a symbolic link, which %s would replace: give %s, the file that it leads to", path,
		what, target)
}

// written reports a cache that was written whole, without dropped damaged entries; state describes
// it in one or two words.
func (f *cacheFlags) written(cmd *cobra.Command, path string, dropped int64, state func(cache.Info) string) error {
	done, err := cache.Inspect(path)
	if err != nil {
		return err
	}
	people := cmd.ErrOrStderr()
	if dropped > 0 {
		fmt.Fprintf(people, "leat: %s: %s became empty\n", terminal.Name(path),
			units.Plural(dropped, "damaged entry", "damaged entries"))
	}
	if f.json {
		doc := writtenDoc{path, done.Slots, done.Entries, done.Bytes, &dropped}
		return stdoutError(writeJSON(cmd.OutOrStdout(), doc))
	}
	fmt.Fprintf(people, "%s: %s, %s, %s\n", terminal.Name(path), entriesText(done.Entries),
		units.FormatSize(done.Bytes), state(done))
	return nil
}

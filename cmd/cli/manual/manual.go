//go:build man

// Package manual writes the manual pages of a program from its commands. It is linked only with the tag man, for the packages: the libraries that
// it needs are not in the programs.
package manual

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"baton/cmd/cli"
)

// Folder is the environment variable that names where the pages go.
const Folder = "BATON_MAN"

// Write ends the process: it writes a page for each command of a tree into the folder that the environment names. Without the variable it does
// nothing.
func Write(root *cobra.Command) {
	dir := os.Getenv(Folder)
	if dir == "" {
		return
	}
	if err := write(root, dir); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(cli.Failure)
	}
	os.Exit(0)
}

func write(root *cobra.Command, dir string) error {
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	cli.Prepare(root)
	plain(root)
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &date, Source: root.Name() + " " + root.Version, Manual: "Baton",
	}, dir)
}

// plain prepares the texts of a command and those below it for the library, which reads them as Markdown.
func plain(c *cobra.Command) {
	c.DisableAutoGenTag = true
	c.InitDefaultHelpFlag()
	c.Short, c.Long = escape(c.Short), escape(c.Long)
	c.Flags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	for _, sub := range c.Commands() {
		plain(sub)
	}
}

// escape keeps text outside of `code` from being read as markup.
func escape(text string) string {
	spans := strings.Split(text, "`")
	for i := range spans {
		if i%2 == 0 {
			spans[i] = markup.Replace(spans[i])
		}
	}
	return strings.Join(spans, "`")
}

var markup = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "#", `\#`, "[", `\[`, "|", `\|`)

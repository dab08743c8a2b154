//go:build man

package main

import (
	"os"

	"baton/cmd/cli"
	"baton/cmd/cli/manual"
)

func init() { manual.Write(tree(cli.Env{Out: os.Stdout, Err: os.Stderr})) }

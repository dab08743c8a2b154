package guest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"
)

// Command is a command for a guest's shell.
type Command struct {
	Script string
	Stdin  io.Reader
	Output io.Writer // both outputs as they come; nil: the result alone has them
}

// Result is what has come of a command.
type Result struct {
	Status int    // exit status; 128 + n for signal n
	Output string // standard output
	Errors string // standard error
}

// Run runs a script as root and waits for its end. A script that fails is no error, but a guest that ends meanwhile is.
func (g *Guest) Run(ctx context.Context, c Command) (Result, error) {
	session, err := g.client.NewSession()
	if err != nil {
		return Result{}, fmt.Errorf("run on guest %s: %w", g.Name, err)
	}
	defer session.Close()
	var out, errs bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = c.Stdin, &out, &errs
	if c.Output != nil {
		session.Stdout, session.Stderr = io.MultiWriter(&out, c.Output), io.MultiWriter(&errs, c.Output)
	}
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	err = session.Run(c.Script)
	result := Result{Output: out.String(), Errors: errs.String()}
	var exit *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		return result, fmt.Errorf("run on guest %s: %w", g.Name, ctx.Err())
	case errors.As(err, &exit):
		if result.Status = exit.ExitStatus(); exit.Signal() != "" {
			result.Status = 128
		}
	case err != nil:
		return result, fmt.Errorf("run on guest %s: %w\n%s", g.Name, err, lastLines(g.Console(), 10))
	}
	return result, nil
}

// Output runs a script that must succeed, and returns its standard output.
func (g *Guest) Output(ctx context.Context, script string) (string, error) {
	r, err := g.Run(ctx, Command{Script: script})
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("run on guest %s: exit status %d: %s\n%s", g.Name, r.Status, script, lastLines(r.Output+r.Errors, 20))
	}
	return r.Output, err
}

// Put copies a file or folder of this machine to a path of the guest.
func (g *Guest) Put(ctx context.Context, from, to string) error {
	if _, err := os.Lstat(from); err != nil {
		return fmt.Errorf("copy to guest %s: %w", g.Name, err)
	}
	in, out := io.Pipe()
	go func() {
		archive := tar.NewWriter(out)
		out.CloseWithError(errors.Join(addFiles(archive, from, filepath.Base(to)), archive.Close()))
	}()
	_, err := g.transfer(ctx, fmt.Sprintf("mkdir -p %[1]q && tar -x --no-same-owner -C %[1]q", filepath.Dir(to)), in)
	in.Close()
	return err
}

// Fetch copies a file or folder of the guest to a path of this machine.
func (g *Guest) Fetch(ctx context.Context, from, to string) error {
	out, err := g.transfer(ctx, fmt.Sprintf("tar -c -C %q %q", filepath.Dir(from), filepath.Base(from)), nil)
	if err != nil {
		return err
	}
	return extractFiles(tar.NewReader(strings.NewReader(out)), filepath.Base(from), to)
}

func (g *Guest) transfer(ctx context.Context, script string, in io.Reader) (string, error) {
	r, err := g.Run(ctx, Command{Script: script, Stdin: in})
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("copy files of guest %s: %s", g.Name, strings.TrimSpace(r.Errors))
	}
	return r.Output, err
}

// addFiles archives a file or folder under another name.
func addFiles(archive *tar.Writer, from, name string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		header.Name = filepath.Join(name, rest)
		if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(archive, f)
		return err
	})
}

// extractFiles writes an archive of one file or folder under another name. Links and devices are left out.
func extractFiles(archive *tar.Reader, name, to string) error {
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(name, filepath.Clean(header.Name))
		if err != nil || !filepath.IsLocal(rest) {
			return fmt.Errorf("the archive has a file outside of %s: %s", name, header.Name)
		}
		path := filepath.Join(to, rest)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeReg:
			err = extractFile(archive, path, header.FileInfo().Mode())
		}
		if err != nil {
			return err
		}
	}
}

func extractFile(from io.Reader, path string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// Shell joins this process's terminal with a shell of the guest until that ends.
func (g *Guest) Shell() error {
	session, err := g.client.NewSession()
	if err != nil {
		return fmt.Errorf("open a shell of guest %s: %w", g.Name, err)
	}
	defer session.Close()
	fd := int(os.Stdin.Fd())
	width, height, err := term.GetSize(fd)
	if err != nil {
		return fmt.Errorf("open a shell of guest %s: %w", g.Name, err)
	}
	state, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("open a shell of guest %s: %w", g.Name, err)
	}
	defer term.Restore(fd, state)
	if err := session.RequestPty(cmp.Or(os.Getenv("TERM"), "vt100"), height, width, ssh.TerminalModes{}); err != nil {
		return fmt.Errorf("open a shell of guest %s: %w", g.Name, err)
	}
	session.Stdin, session.Stdout, session.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := session.Shell(); err != nil {
		return fmt.Errorf("open a shell of guest %s: %w", g.Name, err)
	}
	var exit *ssh.ExitError
	if err := session.Wait(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("the shell of guest %s: %w", g.Name, err)
	}
	return nil
}

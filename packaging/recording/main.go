// Command recording records the demo: make recording. asciinema records what bin/baton-lab demo prints. The recording is edited to be read
// (see edit), and termtosvg renders it as an animation in CSS. Both programs are of packaging/python.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// The size of the screen, in characters. The report's last tables and its checks fit in.
const (
	columns = 100
	rows    = 39
)

// hold is how long the last picture stays before the recording starts again, in milliseconds.
const hold = 15000

const tools = "bin/recording/bin/"

func main() {
	raw := flag.String("raw", "", "edit and render this recording of asciinema's instead of a new one")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "recording: CAST, SVG and TEXT are missing; for example: go run ./packaging/recording docs/demo.cast docs/demo.svg docs/results/demo.txt")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := write(ctx, *raw, flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// write writes the files, or none if the demo fails.
func write(ctx context.Context, raw, castFile, svgFile, textFile string) error {
	folder, err := os.MkdirTemp("", "baton-recording-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if raw == "" {
		raw = filepath.Join(folder, "raw.cast")
		if err := run(ctx, tools+"asciinema", "rec", "--quiet", "--cols", strconv.Itoa(columns), "--rows", strconv.Itoa(rows), "--command", "bin/baton-lab demo", raw); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(raw)
	if err != nil {
		return err
	}
	c, err := parse(b)
	if err != nil {
		return fmt.Errorf("%s: %w", raw, err)
	}
	if c, err = edit(c); err != nil {
		return err
	}
	picture, err := render(ctx, folder, c)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(castFile, c.bytes(), 0o644), os.WriteFile(svgFile, picture, 0o644), os.WriteFile(textFile, []byte(c.text()), 0o644))
}

func render(ctx context.Context, folder string, c cast) ([]byte, error) {
	edited, svg := filepath.Join(folder, "demo.cast"), filepath.Join(folder, "demo.svg")
	if err := os.WriteFile(edited, c.bytes(), 0o644); err != nil {
		return nil, err
	}
	if err := run(ctx, tools+"termtosvg", "render", edited, svg, "--template", "packaging/recording/template.svg", "--loop-delay", strconv.Itoa(hold)); err != nil {
		return nil, err
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		return nil, err
	}
	return withStill(picture)
}

func run(ctx context.Context, program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	out, err := c.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s %s: %w (packaging/python.sh recording installs it)\n%s", program, args[0], err, out)
	}
	return nil
}

// view is what the animation moves, and last its last position.
var (
	view = regexp.MustCompile(`<g id="screen_view"`)
	last = regexp.MustCompile(`100\.000%\{transform:translateY\((-?\d+)px\)\}`)
)

// withStill makes the last picture the one that is seen where nothing moves.
func withStill(svg []byte) ([]byte, error) {
	position := last.FindSubmatch(svg)
	if position == nil || len(view.FindAll(svg, -1)) != 1 {
		return nil, errors.New("termtosvg writes another kind of SVG than withStill knows: is it the version of packaging/recording-packages.txt?")
	}
	return append(view.ReplaceAll(svg, fmt.Appendf(nil, `$0 transform="translate(0 %s)"`, position[1])), '\n'), nil
}

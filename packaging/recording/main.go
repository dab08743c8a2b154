// Command recording records the demo: make recording. asciinema records what bin/baton-lab demo prints. The recording is edited to be read
// (see edit), and termtosvg renders it as an animation in CSS. Both programs are of packaging/python.sh.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// The size of the screen, in characters. The report's last tables and its checks fit in.
const (
	columns = 100
	rows    = 41
)

// hold is how long the last picture stays before the recording starts again, in milliseconds.
const hold = 15000

const tools = "bin/recording/bin/"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "recording: CAST and SVG are missing; for example: go run ./packaging/recording docs/demo.cast docs/demo.svg")
		os.Exit(2)
	}
	if err := record(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// record writes both files, or neither if the demo fails.
func record(castFile, svgFile string) error {
	folder, err := os.MkdirTemp("", "baton-recording-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	raw, edited, svg := filepath.Join(folder, "raw.cast"), filepath.Join(folder, "demo.cast"), filepath.Join(folder, "demo.svg")
	if err := run(tools+"asciinema", "rec", "--quiet", "--cols", strconv.Itoa(columns), "--rows", strconv.Itoa(rows), "--command", "bin/baton-lab demo", raw); err != nil {
		return err
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
	cast := c.bytes()
	if err := os.WriteFile(edited, cast, 0o644); err != nil {
		return err
	}
	if err := run(tools+"termtosvg", "render", edited, svg, "--template", "packaging/recording/template.svg", "--loop-delay", strconv.Itoa(hold)); err != nil {
		return err
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		return err
	}
	if picture, err = withStill(picture); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(castFile, cast, 0o644), os.WriteFile(svgFile, picture, 0o644))
}

func run(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w (packaging/python.sh recording installs it)", program, args[0], err)
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

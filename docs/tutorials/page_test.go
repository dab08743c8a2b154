package tutorials_test

import (
	"fmt"
	"regexp"
	"strings"
)

// block is a fenced block of a page. Its first line says what it is:
//
//	```sh    # on HOST                      commands; each must succeed
//	```sh    # on HOST: it fails            commands, the last of which must fail
//	```sh    # on HOST: in a second terminal  a program that keeps running, until
//	```sh    # on HOST: Ctrl-C in the second terminal, then
//	```text                                 lines that the commands before it print, in this order; … stands for anything
//	```yaml  # FILE on HOST                 a file, in any language with such comments
//
// HOST may be several, "s1 and s2". What follows a colon or a comma is for the reader, but for the words above.
type block struct {
	line     int // of the page
	language string
	hosts    []string
	remark   string
	file     string // path, "" for commands and output
	text     string
}

var (
	opening  = regexp.MustCompile("^ *```(\\w*)$")
	commands = regexp.MustCompile(`^# on ([\w-]+(?:(?:, | and )[\w-]+)*?)(?:[:;,] (.+))?$`)
	file     = regexp.MustCompile(`^# (\S+)(?: on ([\w-]+(?:(?:, | and )[\w-]+)*))?$`)
	comma    = regexp.MustCompile(`, | and `)
)

// blocks gives all fenced blocks of a page; hosts are those that it may name.
func blocks(page string, hosts []string) ([]block, error) {
	var all []block
	var open *block
	for n, line := range strings.Split(page, "\n") {
		switch m := opening.FindStringSubmatch(line); {
		case open == nil && m != nil:
			all = append(all, block{line: n + 1, language: m[1]})
			open = &all[len(all)-1]
		case open == nil && strings.Contains(line, "```"):
			return nil, fmt.Errorf("line %d: which language is this block in? Write ```sh, ```text or that of a file", n+1)
		case open != nil && strings.TrimSpace(line) == "```":
			if err := open.understand(hosts); err != nil {
				return nil, fmt.Errorf("line %d: %w", open.line, err)
			}
			if open.language == "text" && (len(all) < 2 || all[len(all)-2].language != "sh") {
				return nil, fmt.Errorf("line %d: output of which commands is this?", open.line)
			}
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block does not end", open.line)
	}
	return all, nil
}

func (b *block) understand(hosts []string) error {
	first, rest, _ := strings.Cut(b.text, "\n")
	named := ""
	switch b.language {
	case "text":
		return nil
	case "sh":
		m := commands.FindStringSubmatch(first)
		if m == nil {
			return fmt.Errorf("where are these commands run? Write # on HOST in the first line, not %q", first)
		}
		named, b.remark, b.text = m[1], m[2], rest
	default:
		m := file.FindStringSubmatch(first)
		if m == nil {
			return fmt.Errorf("which file is this? Write # FILE or # FILE on HOST in the first line, not %q", first)
		}
		b.file, named = m[1], m[2]
	}
	if named == "" {
		b.hosts = hosts
		return nil
	}
	b.hosts = comma.Split(named, -1)
	for _, name := range b.hosts {
		known := false
		for _, h := range hosts {
			known = known || h == name
		}
		if !known {
			return fmt.Errorf("there is no host %q in the test's network, which has %v", name, hosts)
		}
	}
	return nil
}

// stays: the commands end only when they are interrupted.
func (b *block) stays() bool { return strings.Contains(b.remark, "in a second terminal") }

// interrupts: what stays on the host is interrupted first.
func (b *block) interrupts() bool { return strings.Contains(b.remark, "Ctrl-C") }

func (b *block) fails() bool { return regexp.MustCompile(`\bfails\b`).MatchString(b.remark) }

// volatile is what differs from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DATE"},
	{regexp.MustCompile(`\d\d?/[A-Z][a-z][a-z]/\d{4}`), "DATE"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?(Z|[ +-]+\d{4}| ?[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?([kKMG]i?)?(B|bit)/s`), "RATE"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ns|µs|us|ms|s|m|h))+\b`), "DURATION"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (ns|µs|us|ms|s|seconds|min)\b`), "DURATION"},
	{regexp.MustCompile(`:(3[2-9]|[45]\d|60)\d{3}\b`), ":PORT"},
	{regexp.MustCompile(`\bpid[= ]\d+`), "pid=N"},
	{regexp.MustCompile(`[ \t\r]+`), " "}, // heads of HTTP have returns
	{regexp.MustCompile(`(?m)^ | $`), ""},
}

func stable(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// shows finds the lines of a page in what was printed, in their order; … stands for anything within a line, or for lines.
func shows(page, printed string) error {
	printed = stable(printed)
	rest := printed
	for _, line := range strings.Split(strings.TrimSpace(stable(page)), "\n") {
		if line == "…" || line == "..." || line == "" {
			continue
		}
		parts := strings.Split(line, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		at := regexp.MustCompile(`(?m)^` + strings.Join(parts, ".*") + `$`).FindStringIndex(rest)
		if at == nil {
			return fmt.Errorf("no line %q in what is printed, or not in this order:\n%s", line, printed)
		}
		rest = rest[at[1]:]
	}
	return nil
}

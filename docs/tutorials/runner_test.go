package tutorials_test

import (
	"path/filepath"
	"strings"
	"testing"

	"baton/lab"
)

// TestRunner follows a page that has a block of each kind.
func TestRunner(t *testing.T) {
	l := lab.New(t)
	a, b := l.Host("a"), l.Host("b")
	l.Link(lab.End{Host: a, Name: "eth0", Addrs: []string{"192.0.2.1/24"}}, lab.End{Host: b, Name: "eth0", Addrs: []string{"192.0.2.2/24"}}, lab.LinkOptions{})
	follow(t, "testdata/runner.md", a, b)
}

// TestPagesAreRefused: blocks that nobody could run, or whose output would not be looked at.
func TestPagesAreRefused(t *testing.T) {
	fence := "```"
	for page, why := range map[string]string{
		fence + "sh\nls\n" + fence:                          "line 1: where are these commands run?",
		fence + "sh\n# on c\nls\n" + fence:                  `there is no host "c"`,
		fence + "yaml\na: 1\n" + fence:                      "which file is this?",
		fence + "text\na\n" + fence:                         "output of which commands",
		fence + "\nls\n" + fence:                            "which file is this?",
		"x\n" + fence + "{.sh}\n# on a\nls\n" + fence:       "line 2: which language",
		fence + "sh\n# on a\nls\n":                          "does not end",
		fence + "yaml\n# x.yaml on a and c\na: 1\n" + fence: `there is no host "c"`,
	} {
		if _, err := blocks(page, []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, not %s", page, err, why)
		}
	}
}

func TestShows(t *testing.T) {
	const printed = "time=2026-01-02T03:04:05.678Z level=INFO msg=ready\nNAME   STATE\ns1     up     17ms\ns2     down\n10.0.0.1:45678 -> 10.0.0.2:80\n"
	for _, page := range []string{"NAME STATE\ns1 up 3.5s", "s1 … \n…\n10.0.0.1:51000 -> 10.0.0.2:80", "… msg=ready", "time=2020-10-12T10:00:05Z level=INFO msg=ready"} {
		if err := shows(page, printed); err != nil {
			t.Error(err)
		}
	}
	for _, page := range []string{"s2 down\ns1 …", "s1", "s1 up 17", "10.0.0.1:45678 -> 10.0.0.2:81", "ready"} {
		if shows(page, printed) == nil {
			t.Errorf("%q is in it", page)
		}
	}
}

// TestEachPageIsFollowed: a page in this folder has a test of its name that follows it.
func TestEachPageIsFollowed(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.ReplaceAll(strings.TrimSuffix(page, ".md"), "-", "_") + "_test.go"
		if !strings.Contains(read(t, name), `follow(t, "`+page+`"`) {
			t.Errorf("%s does not follow %s", name, page)
		}
	}
}

package machine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var included = regexp.MustCompile(`(?m)^#include "\.\./wire/(\w+\.h)"`)

// go build looks for changes of headers in the package's directory alone. So each that is compiled has a link here; without one, an older
// build of the kernel's C would be tested.
func TestHeadersAreLinked(t *testing.T) {
	session, err := filepath.Glob("../../bpf/session/*.h")
	if err != nil || len(session) == 0 {
		t.Fatalf("%d headers: %v", len(session), err)
	}
	want := session[:len(session):len(session)]
	for _, path := range session {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range included.FindAllSubmatch(text, -1) {
			want = append(want, "../../bpf/wire/"+string(m[1]))
		}
	}
	for _, path := range want {
		link := filepath.Base(filepath.Dir(path)) + "_" + filepath.Base(path)
		if got, err := os.Readlink(link); err != nil || got != path {
			t.Errorf("%s is %q, want a link to %s: ln -s %[3]s splice/machine/%[1]s", link, got, path)
		}
	}
}

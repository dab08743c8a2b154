package dashboard

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestPageNamesFilesThatExist(t *testing.T) {
	page := get(http.MethodGet, "/")
	if page.Code != http.StatusOK || page.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("status %d, type %q", page.Code, page.Header().Get("Content-Type"))
	}
	named := regexp.MustCompile(`(?:href|src)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(named) < 3 {
		t.Fatalf("the page names %q", named)
	}
	for _, n := range named {
		if n[1] == "v1/docs" {
			continue // the controller's
		}
		w := get(http.MethodGet, "/"+n[1])
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, %d bytes", n[1], w.Code, w.Body.Len())
		}
		if c := w.Header().Get("Cache-Control"); !strings.Contains(c, "immutable") {
			t.Errorf("%s: Cache-Control %q", n[1], c)
		}
	}
	if c := page.Header().Get("Cache-Control"); c != "no-cache" {
		t.Errorf("the page: Cache-Control %q", c)
	}
}

func TestHeaders(t *testing.T) {
	for _, path := range []string{"/", "/licences.txt", "/nowhere"} {
		h := get(http.MethodGet, path).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: no %s in %q", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || strings.Contains(csp, "*") {
			t.Errorf("%s: the policy is too wide: %q", path, csp)
		}
	}
}

func TestHandlerRefuses(t *testing.T) {
	for path, want := range map[string]int{
		"/nowhere": 404, "/built": 404, "/../dashboard.go": 404, "/built/index.html": 404, "//": 404, "/.": 404, "/web/package.json": 404,
	} {
		if w := get(http.MethodGet, path); w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodOptions} {
		if w := get(method, "/"); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
	if w := get(http.MethodHead, "/"); w.Code != http.StatusOK {
		t.Errorf("HEAD: status %d", w.Code)
	}
}

// TestSize keeps the page small enough for a slow line: all files together have less than 100 kB.
func TestSize(t *testing.T) {
	total := int64(0)
	err := fs.WalkDir(built, "built", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		if types[path[strings.LastIndex(path, "."):]] == "" {
			t.Errorf("%s has no type", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total > 100_000 {
		t.Errorf("%d bytes", total)
	}
}

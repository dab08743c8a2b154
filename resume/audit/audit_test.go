package audit_test

import (
	"bytes"
	"compress/gzip"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"baton/resume"
	"baton/resume/audit"
)

// served is a site that changes answers of a right one.
func served(t *testing.T, file []byte, etag string, change func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		if change == nil || !change(w, r) {
			http.ServeContent(w, r, "f.bin", time.Time{}, bytes.NewReader(file))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/f.bin"
}

func TestAudit(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789"), 2000)
	other := bytes.Clone(file)
	other[12_000]++
	const tag = `"one"`
	valid := func(t *testing.T) string { return served(t, file, tag, nil) }
	tests := []struct {
		name    string
		sites   func(t *testing.T) []string
		problem string // "" is safe
	}{
		{"one", func(t *testing.T) []string { return []string{valid(t)} }, ""},
		{"two", func(t *testing.T) []string { return []string{valid(t), valid(t)} }, ""},
		{"a third with another file", func(t *testing.T) []string { return []string{valid(t), valid(t), served(t, other, `"two"`, nil)} }, "different bytes"},
		{"another file under the same tag", func(t *testing.T) []string { return []string{valid(t), served(t, other, tag, nil)} }, "DANGER"},
		{"another length", func(t *testing.T) []string { return []string{valid(t), served(t, file[:15_000], `"two"`, nil)} }, "different lengths"},
		{"another length under the same tag", func(t *testing.T) []string { return []string{valid(t), served(t, file[:15_000], tag, nil)} }, "DANGER"},
		{"nginx, other times", func(t *testing.T) []string {
			return []string{served(t, file, `"65f0a000-4e20"`, nil), served(t, file, `"65f0a03c-4e20"`, nil)}
		}, "1m0s apart"},
		{"nginx and Apache", func(t *testing.T) []string {
			return []string{served(t, file, `"65f0a000-4e20"`, nil), served(t, file, `"4e20-613a5d2b0c000"`, nil)}
		}, "nginx makes them of time and size"},
		{"no validator", func(t *testing.T) []string { return []string{served(t, file, "", nil)} }, "no strong validator"},
		{"weak validator", func(t *testing.T) []string { return []string{served(t, file, `W/"one"`, nil)} }, "weak"},
		{"no ranges", func(t *testing.T) []string {
			return []string{served(t, file, tag, func(_ http.ResponseWriter, r *http.Request) bool { r.Header.Del("Range"); return false })}
		}, "ignores ranges"},
		{"conditions ignored", func(t *testing.T) []string {
			return []string{served(t, file, tag, func(_ http.ResponseWriter, r *http.Request) bool { r.Header.Del("If-Range"); return false })}
		}, "ignores If-Range"},
		{"ranges with conditions ignored", func(t *testing.T) []string {
			return []string{served(t, file, tag, func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("If-Range") != "" {
					r.Header.Del("Range")
				}
				return false
			})}
		}, "does not honour If-Range"},
		{"coded under the same tag", func(t *testing.T) []string {
			return []string{served(t, file, tag, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					return false
				}
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				z.Write(file)
				z.Close()
				return true
			})}
		}, "same strong ETag"},
		{"not there", func(t *testing.T) []string {
			return []string{valid(t), served(t, nil, tag, func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true })}
		}, "status 404"},
		{"no server", func(*testing.T) []string { return []string{"http://127.0.0.1:1/"} }, "refused"},
		{"nobody", func(*testing.T) []string { return nil }, "-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			targets, err := audit.Targets(t.Context(), net.DefaultResolver, tt.sites(t))
			if err != nil {
				t.Fatal(err)
			}
			r := audit.Judge(audit.Ask(t.Context(), resume.DefaultTransport(time.Second), nil, targets))
			all := r.Problems
			for _, s := range r.Sites {
				all = append(all, s.Problems...)
			}
			if r.Safe != (tt.problem == "") || tt.problem != "-" && !strings.Contains(strings.Join(all, "\n"), tt.problem) {
				t.Errorf("safe %v: %q, want %q", r.Safe, all, tt.problem)
			}
		})
	}
}

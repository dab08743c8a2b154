// Package dashboard is the web page that shows what a controller does. It is in the binary and needs nothing from outside.
package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:generate go run -C types . ../web/src/api.ts
//go:generate web/packages.sh
//go:generate npm --prefix web run build

//go:embed built
var built embed.FS

// index is the only file whose name does not change with its content.
const index = "index.html"

// types are those of the files, whatever the machine's own table says.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// policy lets the page load what comes from its own server alone. Its scripts are files, and nothing of theirs is parsed as HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page at / and its files beside it; everything else is not found.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = index
		}
		content, err := fs.ReadFile(built, "built/"+name)
		if err != nil {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		header.Set("Content-Type", types[path.Ext(name)])
		header.Set("Cache-Control", caching(name))
		_, _ = w.Write(content) // net/http leaves it out for HEAD
	})
}

// caching lets a browser keep files that have their hash in their name for ever.
func caching(name string) string {
	if strings.Contains(name, "-") {
		return "public, max-age=31536000, immutable"
	}
	return "no-cache"
}

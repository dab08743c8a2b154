package peers

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"baton/lab"
)

// Visit is what a client of HTTP/3 is to do: get a file of the Site, and perhaps again over a second connection.
type Visit struct {
	To          netip.AddrPort // whatever the name resolves to
	Name        string
	Authorities *Authority
	Path        string // of Files

	Version uint32     // of QUIC; 0: 1
	Again   bool       // a second connection resumes the session of the first
	Early   bool       // and sends its request as early data
	Migrate netip.Addr // behind 1 MiB the client migrates to that address of its host; zero: it does not
}

// Visited is what came of a connection.
type Visited struct {
	Surrogate string // value of Header
	Version   uint32
	Resumed   bool
	Early     bool // the server has accepted early data
	Migrated  bool
}

// Client is a client of HTTP/3. It returns a Visited for each connection, all of whose bytes were right.
type Client func(ctx context.Context, h *lab.Host, v Visit) ([]Visited, error)

func (v *Visit) version() uint32 { return orDefault(v.Version, 1) }

// heard is what a client says of a connection.
type heard struct {
	Status    int    `json:"status"`
	Surrogate string `json:"surrogate"`
	Bytes     int64  `json:"bytes"`
	Digest    string `json:"digest"` // SHA-256 of the body
	Version   uint32 `json:"version"`
	Resumed   bool   `json:"resumed"`
	Early     bool   `json:"early"`
	Migrated  bool   `json:"migrated"`
}

func (h *heard) visited(path string) (Visited, error) {
	if h.Status != 200 {
		return Visited{}, fmt.Errorf("status %d", h.Status)
	}
	want := make([]byte, Files[path])
	Pattern(want, 0)
	if sum := sha256.Sum256(want); h.Bytes != int64(len(want)) || h.Digest != hex.EncodeToString(sum[:]) {
		return Visited{}, fmt.Errorf("%s: %d bytes, want %d, or they differ", path, h.Bytes, len(want))
	}
	return Visited{h.Surrogate, h.Version, h.Resumed, h.Early, h.Migrated}, nil
}

//go:embed python/*.py
var scripts embed.FS

// quicPython is the interpreter with aioquic and pycurl, of packaging/python.sh: beside this program, or below the working folder or one above.
func quicPython() (string, error) {
	const place = "quic/bin/python"
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), place); exists(path) {
			return path, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if path := filepath.Join(dir, "bin", place); exists(path) {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("bin/" + place + " does not exist: make deps brings it")
		}
		dir = filepath.Dir(dir)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// script writes a script to the lab's folder, and returns what runs it. Without the interpreter it skips the test.
func script(l *lab.Lab, name string) (python, path string) {
	l.T().Helper()
	python, err := quicPython()
	if err != nil {
		l.Need("bin/quic/bin/python") // says that it is not installed
	}
	text, err := scripts.ReadFile("python/" + name)
	if err != nil {
		l.T().Fatalf("peers: %v", err)
	}
	path = filepath.Join(l.Dir(), name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		l.T().Fatalf("peers: %v", err)
	}
	return python, path
}

// Aioquic is the client of that name.
func Aioquic(ctx context.Context, h *lab.Host, v Visit) ([]Visited, error) {
	return v.run(ctx, h, "h3_client.py")
}

// CurlHTTP3 is libcurl with ngtcp2, from the wheel of pycurl: Debian's curl has no HTTP/3.
func CurlHTTP3(ctx context.Context, h *lab.Host, v Visit) ([]Visited, error) {
	return v.run(ctx, h, "h3_curl.py")
}

// limit is how many seconds a connection of a script may take.
const limit = 20

func (v *Visit) run(ctx context.Context, h *lab.Host, name string) ([]Visited, error) {
	h.Lab().T().Helper()
	python, path := script(h.Lab(), name)
	options := map[string]any{
		"host": v.To.Addr(), "port": v.To.Port(), "name": v.Name, "authorities": v.Authorities.File, "path": v.Path, "header": Header,
		"version": v.version(), "again": v.Again, "early": v.Early, "migrate": "", "seconds": limit,
	}
	if v.Migrate.IsValid() {
		options["migrate"] = v.Migrate.String()
	}
	b, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	out, failed := h.Exec(ctx, python, path, string(b))
	var all []Visited
	for line := range strings.Lines(out) {
		var said heard
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			return all, fmt.Errorf("%s says %q", name, line)
		}
		one, err := said.visited(v.Path)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, shortened(failed)
}

// shortened keeps the last line of a script's message, which says what the lines above lead to.
func shortened(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return errors.New(lines[len(lines)-1])
}

// HTTP3Versions are those of the clients of HTTP/3 that have no command: libcurl, with its libraries.
func HTTP3Versions() []string {
	python, err := quicPython()
	if err != nil {
		return nil
	}
	said, err := exec.Command(python, "-c", "import pycurl; print(pycurl.version)").Output()
	if err != nil {
		return nil
	}
	var all []string
	for _, v := range strings.Fields(string(said)) {
		if strings.HasPrefix(v, "libcurl/") || strings.HasPrefix(v, "ngtcp2/") || strings.HasPrefix(v, "OpenSSL/") {
			all = append(all, v)
		}
	}
	return all
}

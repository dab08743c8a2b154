package peers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"baton/lab"
)

// Files of the site that every static server here has, by path: name → size in bytes. All but the last, which is a
// hole of zeros, hold Pattern.
var Files = map[string]int64{
	"/0":    0,
	"/128":  128,
	"/1k":   1 << 10,
	"/10k":  10 << 10,
	"/16k":  16 << 10,
	"/100k": 100 << 10,
	"/1m":   1 << 20,
	"/4m":   4 << 20,
	"/10m":  10 << 20,
	"/100m": 100 << 20,
	"/1g":   1 << 30,
}

const sparse = "/1g"

// Pattern fills b with the bytes that a file of the site has at an offset, so that a byte that is lost, repeated or
// out of place is seen: each 8-byte word is its own index, times an odd constant.
func Pattern(b []byte, offset int64) {
	var word [8]byte
	for i := 0; i < len(b); {
		at := offset + int64(i)
		binary.LittleEndian.PutUint64(word[:], uint64(at/8)*0x9e3779b97f4a7c15)
		i += copy(b[i:], word[at%8:])
	}
}

// CheckPattern reads r to its end and returns an error that names the first byte that differs from Pattern, or the
// wrong length.
func CheckPattern(r io.Reader, size int64) error {
	got, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(r, got)
		Pattern(want[:n], at)
		for i := range n {
			if got[i] != want[i] {
				return fmt.Errorf("byte %d is %#02x, want %#02x", at+int64(i), got[i], want[i])
			}
		}
		at += int64(n)
		switch {
		case err == nil:
			continue
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		case at != size:
			return fmt.Errorf("%d bytes, want %d", at, size)
		}
		return nil
	}
}

// Site returns the folder of the lab's static files, made at first use: those of Files, /healthz, and the page of ChromiumHTTP3.
func Site(l *lab.Lab) string {
	l.T().Helper()
	dir := filepath.Join(l.Dir(), "site")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := writeSite(dir); err != nil {
		l.T().Fatalf("peers: write the site: %v", err)
	}
	return dir
}

func writeSite(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "healthz"), []byte("ok\n"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "visit.html"), visitPage, 0o644); err != nil {
		return err
	}
	for name, size := range Files {
		if err := writeFile(filepath.Join(dir, name), size, name != sparse); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, size int64, filled bool) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !filled {
		return f.Truncate(size)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	block := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(block)) {
		part := block[:min(size-at, int64(len(block)))]
		Pattern(part, at)
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Flush()
}

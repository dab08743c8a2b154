package main

import (
	"bytes"
	"image"
	"image/png"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// The content that is committed is the one that the program writes. Pictures are compared as they look: another version of the
// compressor may pack them in another way.
func TestContentIsWritten(t *testing.T) {
	folder, want := os.DirFS("../content"), files()
	count := 0
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		count++
		got, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		if !same(t, got, want[name]) {
			t.Errorf("%s differs: run go run ./examples/cdn/gallery examples/cdn/content", name)
		}
		return nil
	})
	if err != nil || count != len(want) {
		t.Errorf("%d files, %v; want %d", count, err, len(want))
	}
}

func same(t *testing.T, a, b []byte) bool {
	if !bytes.HasPrefix(a, []byte("\x89PNG")) {
		return bytes.Equal(a, b)
	}
	pixels := func(text []byte) *image.Paletted {
		m, err := png.Decode(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return m.(*image.Paletted)
	}
	x, y := pixels(a), pixels(b)
	return bytes.Equal(x.Pix, y.Pix) && x.Bounds() == y.Bounds()
}

func TestPageNamesEachPicture(t *testing.T) {
	all := files()
	for n := 1; n <= pictures; n++ {
		if !strings.Contains(string(all["index.html"]), "http://cdn.dizp.bt:8082/"+pictureName(n)) {
			t.Errorf("the page has no picture %d", n)
		}
		if len(all[pictureName(n)]) < 1000 {
			t.Errorf("picture %d has %d bytes", n, len(all[pictureName(n)]))
		}
	}
}

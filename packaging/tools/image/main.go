// Command image makes an OCI image with one static program and nothing else, for several processors, as an archive that podman and skopeo read. It
// needs no daemon, and the same programs give the same bytes. It is built with the module file of packaging/tools, so that the product does not
// depend on its libraries.
//
//	go run -modfile=packaging/tools/go.mod ./packaging/tools/image -tag baton:0.1.0 -date SECONDS -o FILE amd64=PATH arm64=PATH
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	tag := flag.String("tag", "", "`name:version` of the image")
	seconds := flag.Int64("date", 0, "time of the files, in `seconds` since 1970")
	file := flag.String("o", "", "archive to write")
	flag.Parse()
	if err := run(*tag, *file, time.Unix(*seconds, 0).UTC(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(tag, file string, date time.Time, programs []string) error {
	name, version, ok := strings.Cut(tag, ":")
	if !ok || file == "" || len(programs) == 0 {
		return fmt.Errorf("usage: image -tag NAME:VERSION -date SECONDS -o FILE ARCHITECTURE=PROGRAM...")
	}
	index := v1.ImageIndex(empty.Index)
	for _, p := range programs {
		arch, path, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCHITECTURE=PROGRAM, such as amd64=bin/baton", p)
		}
		image, err := imageOf(name, version, arch, path, date)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "baton-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// One entry, an index for all processors: podman then takes the image of its own.
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return err
	}
	return archive(dir, file, date)
}

// imageOf is an image with one program, which is its entry point.
func imageOf(name, version, arch, path string, date time.Time) (v1.Image, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, dir := range []string{"usr/", "usr/bin/", "etc/", "etc/baton/", "run/", "run/baton/", "tmp/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode, ModTime: date}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "usr/bin/" + name, Mode: 0o755, Size: int64(len(program)), ModTime: date}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created, config.History = arch, "linux", v1.Time{Time: date}, nil
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/" + name}, Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{"org.opencontainers.image.title": name, "org.opencontainers.image.version": version},
	}
	return mutate.ConfigFile(image, config)
}

// archive writes a folder as a tar file, in the order of names.
func archive(dir, file string, date time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if failed := out.Close(); err == nil {
			err = failed
		}
	}()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: date})
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: date}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}

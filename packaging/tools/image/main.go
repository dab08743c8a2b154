// Command image makes an OCI image for several processors, each with one archive of files, as a folder of OCI's image layout. It needs no daemon, and
// the same files give the same bytes.
//
//	image -tag baton:0.1.0 -date SECONDS -o FOLDER amd64=FILES.tar arm64=FILES.tar
package main

import (
	"flag"
	"fmt"
	"os"
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
	seconds := flag.Int64("date", 0, "when it was made, in `seconds` since 1970")
	folder := flag.String("o", "", "`folder` to write")
	flag.Parse()
	if err := run(*tag, *folder, time.Unix(*seconds, 0).UTC(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(tag, folder string, date time.Time, archives []string) error {
	name, version, ok := strings.Cut(tag, ":")
	if !ok || folder == "" || len(archives) == 0 {
		return fmt.Errorf("usage: image -tag NAME:VERSION -date SECONDS -o FOLDER ARCHITECTURE=FILES.tar...")
	}
	index := v1.ImageIndex(empty.Index)
	for _, a := range archives {
		arch, files, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCHITECTURE=FILES.tar, such as amd64=files.tar", a)
		}
		image, err := imageOf(name, version, arch, files, date)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// One entry, an index for all processors: podman then takes the image of its own.
	return at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}))
}

// imageOf is an image with the files of one archive, of which the program with the image's name is the entry point.
func imageOf(name, version, arch, files string, date time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(files, tarball.WithMediaType(types.OCILayer))
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

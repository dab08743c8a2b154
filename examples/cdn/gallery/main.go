// Gallery writes the content of the origin: a page with pictures of hills, which are drawn from their numbers.
//
//	go run ./examples/cdn/gallery examples/cdn/content
package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
)

const (
	pictures      = 12
	width, height = 480, 320
	ridges        = 5
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gallery DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gallery:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "images"), 0o755); err != nil {
		return err
	}
	for name, content := range files() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files is the content by path.
func files() map[string][]byte {
	all := map[string][]byte{"index.html": []byte(page()), "healthz": []byte("ok\n")}
	for n := 1; n <= pictures; n++ {
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, picture(n)); err != nil {
			panic(err) // the image is in memory
		}
		all[pictureName(n)] = b.Bytes()
	}
	return all
}

func pictureName(n int) string { return fmt.Sprintf("images/%02d.png", n) }

// page is the gallery. As in the paper its pictures are fetched from the CDN, wherever the page comes from.
func page() string {
	var b strings.Builder
	b.WriteString(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Gallery</title>
<style>
	body { margin: 1rem; font-family: sans-serif; color: #223; background: #f7f7f4 }
	main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)) }
	figure { margin: 0 }
	img { width: 100%; height: auto; border-radius: .3rem }
	@media (prefers-color-scheme: dark) { body { color: #dde; background: #16181d } }
</style>
<h1>Hills</h1>
<main>
`)
	for n := 1; n <= pictures; n++ {
		fmt.Fprintf(&b, "<figure><img src=\"http://cdn.dizp.bt:8082/%s\" width=%d height=%d alt=\"Hills, number %d\"><figcaption>Number %d</figcaption></figure>\n",
			pictureName(n), width, height, n, n)
	}
	b.WriteString("</main>\n</html>\n")
	return b.String()
}

// picture has a sky, a sun and ridges, each nearer and darker than the one before.
func picture(n int) image.Image {
	hue := float64(n) * 360 / pictures
	palette := color.Palette{shade(hue, 0.35, 0.92), shade(hue, 0.30, 0.97), shade(hue+40, 0.15, 1)} // sky, horizon, sun
	for r := range ridges {
		palette = append(palette, shade(hue+10*float64(r), 0.35+0.1*float64(r), 0.8-0.14*float64(r)))
	}
	m := image.NewPaletted(image.Rect(0, 0, width, height), palette)
	sunX, sunY := float64(60+(n*97)%360), float64(50+(n*31)%50)
	for x := range width {
		tops := [ridges]float64{}
		for r := range ridges {
			at, of := float64(x)/width*2*math.Pi, float64(n*7+r*13)
			tops[r] = 120 + 38*float64(r) - 22*math.Sin(at*(1+0.3*float64(r))+of) - 12*math.Sin(at*2.7+2*of)
		}
		for y := range height {
			index := uint8(0)
			if y > 90 {
				index = 1
			}
			if math.Hypot(float64(x)-sunX, float64(y)-sunY) < 26 {
				index = 2
			}
			for r := range ridges {
				if float64(y) >= tops[r] {
					index = uint8(3 + r)
				}
			}
			m.SetColorIndex(x, y, index)
		}
	}
	return m
}

// shade is a colour by hue (degrees), saturation and value.
func shade(hue, saturation, value float64) color.RGBA {
	channel := func(n float64) uint8 {
		k := math.Mod(n+hue/60, 6)
		return uint8(math.Round(255 * (value - value*saturation*math.Max(0, math.Min(math.Min(k, 4-k), 1)))))
	}
	return color.RGBA{channel(5), channel(3), channel(1), 255}
}

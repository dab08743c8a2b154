package config

import (
	"fmt"
	"time"

	"baton/document"
)

// decoder decodes the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

// delay decodes a duration from 0 to most.
func (d *decoder) delay(path string, n *node, most time.Duration) time.Duration {
	s := d.Text(path, n)
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 || v > most {
		d.Wrong(n, path, fmt.Sprintf("%q is not a duration from 0 to %v", document.Clip(s), most), "a number with its unit, such as 100ms")
		return 0
	}
	return v
}

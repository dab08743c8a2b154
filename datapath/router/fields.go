package router

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// FieldsText is the greatest length of a Pool's fields in bytes, Watches the greatest number of a VIP's watched names.
const (
	FieldsText = int(routerBoundFIELDS_TEXT)
	Watches    = int(routerBoundWATCHES)
)

// What stands for a value in the text of fields.
const (
	MarkAddress   = string(rune(routerFieldMarkMARK_ADDRESS))    // the client's address
	MarkNode      = string(rune(routerFieldMarkMARK_NODE))       // the same as a node of Forwarded (RFC 7239, 6)
	MarkRequestID = string(rune(routerFieldMarkMARK_REQUEST_ID)) // 32 hexadecimal digits
)

// headerOf is the number that a pool's sessions carry.
func (r *Router) headerOf(p *Pool) (uint16, error) {
	if p.Header != Fields {
		return uint16(p.Header), nil
	}
	n, err := r.textNumber(p.Fields)
	return uint16(routerHeaderHEADER_FIELDS) + n, err
}

// textNumber finds a text among those that the kernel has, or adds it. Sessions carry the number while the surrogate has not
// acknowledged a head, which is a matter of round trips: the place of a text that no pool uses any more is taken last.
func (r *Router) textNumber(text string) (uint16, error) {
	if text == "" || len(text) > FieldsText {
		return 0, fmt.Errorf("fields of %d bytes, at most %d", len(text), FieldsText)
	}
	want := routerFields{Len: uint16(len(text)), First: uint16(len(text))}
	if at := strings.IndexAny(text, MarkAddress+MarkNode+MarkRequestID); at >= 0 {
		want.First = uint16(at)
	}
	copy(want.Text[:], text)
	free := -1
	for n := range uint16(routerBoundMAX_FIELDS) {
		var had routerFields
		if err := r.maps.FieldTexts.Lookup(uint32(n), &had); err != nil {
			return 0, fmt.Errorf("read fields %d: %w", n, err)
		}
		if had == want {
			return n, nil
		}
		if had.Len == 0 && free < 0 {
			free = int(n)
		}
	}
	if free < 0 {
		var err error
		if free, err = r.unusedText(); err != nil {
			return 0, err
		}
	}
	if err := r.maps.FieldTexts.Update(uint32(free), want, ebpf.UpdateAny); err != nil {
		return 0, fmt.Errorf("write fields %d: %w", free, err)
	}
	return uint16(free), nil
}

// unusedText is a number that no pool of either generation has.
func (r *Router) unusedText() (int, error) {
	var used [routerBoundMAX_FIELDS]bool
	for place := range uint32(routerBoundGENERATIONS) * uint32(MaxPools) {
		var p routerPool
		if err := r.maps.Pools.Lookup(place, &p); err != nil {
			return 0, fmt.Errorf("read pool %d: %w", place, err)
		}
		if n := int(p.Header) - int(routerHeaderHEADER_FIELDS); n >= 0 && n < len(used) {
			used[n] = true
		}
	}
	n := slices.Index(used[:], false)
	if n < 0 {
		return 0, fmt.Errorf("more than %d different texts of fields", len(used))
	}
	return n, nil
}

// watchedBytes is how much of a name the kernel compares.
const watchedBytes = 16

// watchOf is a name as the kernel compares it: its beginning and colon without case, '_' as '-'.
func watchOf(name string) (w struct{ Name, Mask [2]uint64 }) {
	const (
		noCase   = 0x20
		noMinus  = 0xff &^ (('-' ^ ('_' | noCase)) & 0xff) // what '-' and '_' share
		wholeOne = 0xff
	)
	var text, mask [watchedBytes]byte
	for i, c := range []byte(name + ":") {
		if i == watchedBytes {
			break
		}
		mask[i] = wholeOne
		if c == '-' || c == '_' {
			c, mask[i] = '-', noMinus
		}
		text[i] = c | noCase
	}
	for i := range w.Name {
		w.Name[i], w.Mask[i] = binary.LittleEndian.Uint64(text[8*i:]), binary.LittleEndian.Uint64(mask[8*i:])
		w.Name[i] &= w.Mask[i]
	}
	return w
}

// IsWatched reports whether the kernel takes the name of a field for one of watch.
func IsWatched(name string, watch []string) bool {
	var line [watchedBytes]byte
	copy(line[:], name+":")
	x, y := binary.LittleEndian.Uint64(line[:]), binary.LittleEndian.Uint64(line[8:])
	const noCase = 0x2020202020202020
	for _, of := range watch {
		w := watchOf(of)
		if ((x|noCase)^w.Name[0])&w.Mask[0] == 0 && ((y|noCase)^w.Name[1])&w.Mask[1] == 0 {
			return true
		}
	}
	return false
}

// nobody is no name: nothing is | 0x20 and has a zero byte.
var nobody = struct{ Name, Mask [2]uint64 }{Mask: [2]uint64{0xff, 0}}

func (v VIP) watches() bool { return v.Watch != [Watches]string{} }

func (r *Router) writeWatches(generation uint32, v VIP) error {
	var k routerWatches
	for i := range k.Of {
		w := nobody
		if v.Watch[i] != "" {
			w = watchOf(v.Watch[i])
		}
		k.Of[i].Name, k.Of[i].Mask = w.Name, w.Mask
	}
	if err := r.maps.WatchedFields.Update(uint32(vipID(generation, v.ID)), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set watched fields: %w", err)
	}
	return nil
}

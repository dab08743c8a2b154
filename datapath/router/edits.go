package router

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// Greatest sizes: EditText of each part of an Edit, EditPadding of what one takes away of a head (the beginning of its target and its host),
// both in bytes; Watches of a VIP's watched names; MaxEdits of all different ones, in both generations of the tables.
const (
	MaxEdits    = int(routerBoundMAX_EDITS)
	EditText    = int(routerBoundEDIT_TEXT)
	EditPadding = int(routerBoundEDIT_PADDING)
	Watches     = int(routerBoundWATCHES)
)

// What stands for a value in the fields of an Edit.
const (
	MarkAddress   = string(rune(routerFieldMarkMARK_ADDRESS))    // the client's address
	MarkNode      = string(rune(routerFieldMarkMARK_NODE))       // the same as a node of Forwarded (RFC 7239, 6)
	MarkRequestID = string(rune(routerFieldMarkMARK_REQUEST_ID)) // 32 hexadecimal digits
)

// Edit is how the head of each request changes on its way. The zero value changes nothing.
type Edit struct {
	Fields string // lines for its end, with marks in place of values
	Strip  int    // bytes at the beginning of the target that Prefix takes the place of
	Prefix string
	Host   string // in place of the client's
}

// headerOf is the number that sessions carry.
func (r *Router) headerOf(h Header, e Edit) (uint16, error) {
	if e == (Edit{}) {
		return uint16(h), nil
	}
	if n, ok := r.edits.numbers[e]; ok {
		return n, nil
	}
	n, err := r.editNumber(e)
	if err != nil {
		return 0, err
	}
	n += uint16(routerHeaderHEADER_EDIT)
	if r.edits.numbers == nil {
		r.edits.numbers = make(map[Edit]uint16)
	}
	maps.DeleteFunc(r.edits.numbers, func(_ Edit, had uint16) bool { return had == n })
	r.edits.numbers[e] = n
	return n, nil
}

// headerFor is headerOf for a decision.
func (r *Router) headerFor(e Edit) (uint16, error) {
	if e == (Edit{}) {
		return 0, nil
	}
	r.tables.Lock()
	defer r.tables.Unlock()
	return r.headerOf(NoHeader, e)
}

// edits are the numbers of those that this process has used. Guarded by the lock of the tables.
type edits struct{ numbers map[Edit]uint16 }

func (e Edit) kernel() (routerEdit, error) {
	k := routerEdit{
		Len: uint16(len(e.Fields)), FirstMark: uint16(len(e.Fields)), Strip: uint16(e.Strip), PrefixLen: uint16(len(e.Prefix)), HostLen: uint16(len(e.Host)),
	}
	if at := strings.IndexAny(e.Fields, MarkAddress+MarkNode+MarkRequestID); at >= 0 {
		k.FirstMark = uint16(at)
	}
	if copy(k.Text[:], e.Fields) < len(e.Fields) || copy(k.Prefix[:], e.Prefix) < len(e.Prefix) || copy(k.Host[:], e.Host) < len(e.Host) || e.Strip < 0 || e.Strip > RouteBytes {
		return k, fmt.Errorf("a part of an edit of heads is longer than %d bytes", EditText)
	}
	return k, nil
}

// editNumber finds an edit among those that the kernel has, or adds it. Sessions carry the number while the surrogate has not
// acknowledged a head, which is a matter of round trips: the number of an edit that no table has any more is taken last.
func (r *Router) editNumber(e Edit) (uint16, error) {
	want, err := e.kernel()
	if err != nil {
		return 0, err
	}
	free := -1
	for n := range uint16(routerBoundMAX_EDITS) {
		var had routerEdit
		if err := r.maps.Edits.Lookup(uint32(n), &had); err != nil {
			return 0, fmt.Errorf("read edit %d: %w", n, err)
		}
		if had == want {
			return n, nil
		}
		if had == (routerEdit{}) && free < 0 {
			free = int(n)
		}
	}
	if free < 0 {
		if free, err = r.unusedEdit(); err != nil {
			return 0, err
		}
	}
	if err := r.maps.Edits.Update(uint32(free), want, ebpf.UpdateAny); err != nil {
		return 0, fmt.Errorf("write edit %d: %w", free, err)
	}
	return uint16(free), nil
}

// unusedEdit is a number that no pool or route of either generation has.
func (r *Router) unusedEdit() (int, error) {
	var used [routerBoundMAX_EDITS]bool
	use := func(header uint16) {
		if n := int(header) - int(routerHeaderHEADER_EDIT); n >= 0 && n < len(used) {
			used[n] = true
		}
	}
	for place := range uint32(routerBoundGENERATIONS) * uint32(MaxPools) {
		var p routerPool
		if err := r.maps.Pools.Lookup(place, &p); err != nil {
			return 0, fmt.Errorf("read pool %d: %w", place, err)
		}
		use(p.Header)
	}
	var k routerRouteKey
	var v routerRoute
	routes := r.maps.Routes.Iterate()
	for routes.Next(&k, &v) {
		use(v.Header)
	}
	if err := routes.Err(); err != nil {
		return 0, fmt.Errorf("read routes: %w", err)
	}
	n := slices.Index(used[:], false)
	if n < 0 {
		return 0, fmt.Errorf("more than %d different edits of heads", len(used))
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

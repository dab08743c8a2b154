package secure

// Sizes in bytes. What a Write of Most gives fits into a buffer: records, each with 22 bytes of its own, are as small as a segment at a
// connection's beginning.
const (
	Most       = 64 << 10 // of the plaintext that one Write takes
	BufferSize = 72 << 10
)

// mostEmpty bounds the buffers that are kept.
const mostEmpty = 32

// Buffers are lent to connections while they have something to be sent. They belong to one goroutine; the zero value is ready.
type Buffers struct {
	empty [][]byte
	lent  int
}

// Alloc lends a buffer of BufferSize.
func (p *Buffers) Alloc() []byte {
	p.lent++
	if k := len(p.empty); k > 0 {
		b := p.empty[k-1]
		p.empty = p.empty[:k-1]
		return b
	}
	return make([]byte, BufferSize)
}

// Free takes a buffer back, whole as it was lent.
func (p *Buffers) Free(b []byte) {
	p.lent--
	if len(p.empty) < mostEmpty {
		p.empty = append(p.empty, b)
	}
}

// InUse is how many have not been given back.
func (p *Buffers) InUse() int { return p.lent }

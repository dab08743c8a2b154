package secure

// Sizes in bytes. A buffer holds the records of a Write of Most, which are as small as a segment at the start of a connection, each with 22
// bytes of overhead.
const (
	Most       = 64 << 10 // plaintext of one Write
	BufferSize = 72 << 10
)

// mostEmpty limits the cached buffers.
const mostEmpty = 32

// Buffers are allocated to connections while they have something to send. They are for one goroutine; the zero value is ready to use.
type Buffers struct {
	empty [][]byte
	lent  int
}

// Alloc returns a buffer of BufferSize.
func (p *Buffers) Alloc() []byte {
	p.lent++
	if k := len(p.empty); k > 0 {
		b := p.empty[k-1]
		p.empty = p.empty[:k-1]
		return b
	}
	return make([]byte, BufferSize)
}

// Free frees a whole buffer.
func (p *Buffers) Free(b []byte) {
	p.lent--
	if len(p.empty) < mostEmpty {
		p.empty = append(p.empty, b)
	}
}

// InUse is the number of buffers that were not freed.
func (p *Buffers) InUse() int { return p.lent }

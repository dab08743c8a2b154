package emulator

// pool keeps the buffers of frames for the next ones, in two sizes: most frames are one packet, some are 64 KiB. Each
// direction has its own; nothing in it is locked.
type pool struct {
	small, large [][]byte
}

const (
	smallBuffer = 2048
	largeBuffer = maxFrame
)

// get returns a buffer for a frame of so many bytes, at full length.
func (p *pool) get(size int) []byte {
	list, whole := &p.large, largeBuffer
	if size <= smallBuffer {
		list, whole = &p.small, smallBuffer
	}
	n := len(*list)
	if n == 0 {
		return make([]byte, whole)
	}
	b := (*list)[n-1]
	*list = (*list)[:n-1]
	return b
}

func (p *pool) put(b []byte) {
	b = b[:cap(b)]
	if len(b) == smallBuffer {
		p.small = append(p.small, b)
	} else {
		p.large = append(p.large, b)
	}
}

// fifo is a queue in a ring that grows.
type fifo[T any] struct {
	ring        []T // a power of two long
	first, next uint
}

func (f *fifo[T]) len() int { return int(f.next - f.first) }

func (f *fifo[T]) push(v T) {
	if f.len() == len(f.ring) {
		larger := make([]T, max(2*len(f.ring), 64))
		n := 0
		for ; f.len() > 0; n++ {
			larger[n] = f.pop()
		}
		f.ring, f.first, f.next = larger, 0, uint(n)
	}
	f.ring[f.next&uint(len(f.ring)-1)] = v
	f.next++
}

// head is the oldest element. The queue is not empty.
func (f *fifo[T]) head() *T { return &f.ring[f.first&uint(len(f.ring)-1)] }

func (f *fifo[T]) pop() T {
	at := f.head()
	v := *at
	var none T
	*at = none
	f.first++
	return v
}

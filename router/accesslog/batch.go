package accesslog

// Reason says why a record is lost.
type Reason uint8

// The reasons.
const (
	LostQueue    Reason = iota // the queue was full: the output is slow, or fails
	LostSize                   // longer than what the transport carries
	LostRejected               // the collector refused it
	LostClosing                // the router ended before it was written
	reasons
)

var reasonNames = [reasons]string{"queue", "size", "rejected", "closing"}

func (r Reason) String() string { return word(reasonNames[:], r) }

// batch is records in the form of their output, one behind another. Those before next are done with.
type batch struct {
	data    []byte
	ends    []int // where each record ends in data
	next    int
	written uint64 // of those that are done with
	lost    [reasons]uint64
}

func (b *batch) add(f format, r *Record) {
	b.data = f.append(b.data, r)
	b.ends = append(b.ends, len(b.data))
}

func (b *batch) reset() {
	b.data, b.ends, b.next = b.data[:0], b.ends[:0], 0
	b.written, b.lost = 0, [reasons]uint64{}
}

// left is how many records are not done with.
func (b *batch) left() int { return len(b.ends) - b.next }

// start is where the next record begins.
func (b *batch) start() int {
	if b.next == 0 {
		return 0
	}
	return b.ends[b.next-1]
}

// record is the next one; there must be one.
func (b *batch) record() []byte { return b.data[b.start():b.ends[b.next]] }

// rest is all that is not done with.
func (b *batch) rest() []byte { return b.data[b.start():] }

// upTo counts records whose bytes together are no more than so many, at least one; and those bytes.
func (b *batch) upTo(bytes int) (records int, data []byte) {
	from := b.start()
	for n := 1; n < b.left(); n++ {
		if b.ends[b.next+n]-from > bytes {
			return n, b.data[from:b.ends[b.next+n-1]]
		}
	}
	return b.left(), b.data[from:]
}

// wrote is done with the next records.
func (b *batch) wrote(records int) {
	b.next += records
	b.written += uint64(records)
}

// lose gives the next records up.
func (b *batch) lose(records int, why Reason) {
	b.next += records
	b.lost[why] += uint64(records)
}

// wroteBytes is done with the records that n bytes of the rest hold, and returns the bytes beyond them, which are of the next record.
func (b *batch) wroteBytes(n int) (beyond int) {
	at := b.start() + n
	for b.left() > 0 && b.ends[b.next] <= at {
		b.wrote(1)
	}
	return at - b.start()
}

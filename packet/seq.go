package packet

// Seq is a TCP sequence or acknowledgement number. Its order is that of RFC 9293 section 3.4, modulo 2^32: it holds
// between numbers that are less than 2^31 apart.
type Seq uint32

// Less reports whether s comes before o.
func (s Seq) Less(o Seq) bool { return int32(s-o) < 0 }

// LessEq reports whether s comes before o or is o.
func (s Seq) LessEq(o Seq) bool { return s == o || s.Less(o) }

// Add returns the number n bytes after s. A negative distance d is Add(uint32(-d)).
func (s Seq) Add(n uint32) Seq { return s + Seq(n) }

// Sub returns the distance in bytes from o forward to s, modulo 2^32.
func (s Seq) Sub(o Seq) uint32 { return uint32(s - o) }

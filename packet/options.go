package packet

import (
	"encoding/binary"
	"errors"
	"iter"
)

// OptionKind is the first byte of a TCP option.
type OptionKind uint8

// The options that Baton knows: RFC 9293 section 3.2, RFC 7323, RFC 2018.
const (
	OptionEnd           OptionKind = 0
	OptionNOP           OptionKind = 1
	OptionMSS           OptionKind = 2
	OptionWindowScale   OptionKind = 3
	OptionSACKPermitted OptionKind = 4
	OptionSACK          OptionKind = 5
	OptionTimestamps    OptionKind = 8
)

// The sizes of options in bytes, kind and length included, and of one SACK block.
const (
	MSSSize           = 4
	WindowScaleSize   = 3
	SACKPermittedSize = 2
	TimestampsSize    = 10
	SACKBlockSize     = 8
)

// MaxOptions is the room for options in a TCP header, in bytes.
const MaxOptions = 40

// ErrOptions says that an option's length is below 2 or runs past the header: nothing behind it can be read.
var ErrOptions = errors.New("walk TCP options: bad option length")

// Option is one TCP option in its header.
type Option struct {
	Kind OptionKind
	// Offset is that of the kind byte, from the start of the options, in bytes.
	Offset int
	// Data aliases the header: the option without kind and length.
	Data []byte
}

// Size returns the size of the option in bytes, kind and length included.
func (o Option) Size() int { return 2 + len(o.Data) }

// Options are the bytes of a TCP header behind its first TCPSize.
type Options []byte

// All walks the options in order, without NOPs, up to the end-of-options byte or the end of the header. A malformed
// option is yielded last, without data, with [ErrOptions]. It never panics, whatever the bytes.
func (o Options) All() iter.Seq2[Option, error] {
	return func(yield func(Option, error) bool) {
		for at := 0; at < len(o); {
			kind := OptionKind(o[at])
			if kind == OptionEnd {
				return
			}
			if kind == OptionNOP {
				at++
				continue
			}
			if at+1 >= len(o) || o[at+1] < 2 || at+int(o[at+1]) > len(o) {
				yield(Option{Kind: kind, Offset: at}, ErrOptions)
				return
			}
			end := at + int(o[at+1])
			if !yield(Option{Kind: kind, Offset: at, Data: o[at+2 : end : end]}, nil) {
				return
			}
			at = end
		}
	}
}

// Check returns [ErrOptions] when the options cannot be walked to their end.
func (o Options) Check() error {
	for _, err := range o.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

// find returns the data of the last option of that kind and size before any malformed one: Linux, too, lets the last
// one win.
func (o Options) find(kind OptionKind, size int) ([]byte, bool) {
	var data []byte
	found := false
	for opt, err := range o.All() {
		if err == nil && opt.Kind == kind && opt.Size() == size {
			data, found = opt.Data, true
		}
	}
	return data, found
}

// MSS returns the maximum segment size in bytes, and whether there is one.
func (o Options) MSS() (uint16, bool) {
	data, ok := o.find(OptionMSS, MSSSize)
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint16(data), true
}

// WindowScale returns the shift count as it was sent, which may be above 14, and whether there is one.
func (o Options) WindowScale() (uint8, bool) {
	data, ok := o.find(OptionWindowScale, WindowScaleSize)
	if !ok {
		return 0, false
	}
	return data[0], true
}

// SACKPermitted reports whether the option is there.
func (o Options) SACKPermitted() bool {
	_, ok := o.find(OptionSACKPermitted, SACKPermittedSize)
	return ok
}

// Timestamps returns TSval and TSecr, and whether there are any.
func (o Options) Timestamps() (val, ecr uint32, ok bool) {
	data, ok := o.find(OptionTimestamps, TimestampsSize)
	if !ok {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:]), true
}

// SACKBlock is one block of received data: the bytes from Left up to, not including, Right.
type SACKBlock struct{ Left, Right Seq }

// SACK returns the blocks of every well-formed SACK option, in order; nil when there is none.
func (o Options) SACK() []SACKBlock {
	var blocks []SACKBlock
	for opt, err := range o.All() {
		if err != nil || opt.Kind != OptionSACK || len(opt.Data)%SACKBlockSize != 0 {
			continue
		}
		for d := opt.Data; len(d) > 0; d = d[SACKBlockSize:] {
			blocks = append(blocks, SACKBlock{Seq(binary.BigEndian.Uint32(d)), Seq(binary.BigEndian.Uint32(d[4:]))})
		}
	}
	return blocks
}

// AppendNOP returns the options with n NOPs behind them.
func (o Options) AppendNOP(n int) Options {
	for range n {
		o = append(o, byte(OptionNOP))
	}
	return o
}

// AppendMSS returns the options with a maximum segment size, in bytes, behind them.
func (o Options) AppendMSS(mss uint16) Options {
	return binary.BigEndian.AppendUint16(append(o, byte(OptionMSS), MSSSize), mss)
}

// AppendWindowScale returns the options with a window scale behind them.
func (o Options) AppendWindowScale(shift uint8) Options {
	return append(o, byte(OptionWindowScale), WindowScaleSize, shift)
}

// AppendSACKPermitted returns the options with SACK-permitted behind them.
func (o Options) AppendSACKPermitted() Options {
	return append(o, byte(OptionSACKPermitted), SACKPermittedSize)
}

// AppendTimestamps returns the options with timestamps behind them.
func (o Options) AppendTimestamps(val, ecr uint32) Options {
	o = append(o, byte(OptionTimestamps), TimestampsSize)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(o, val), ecr)
}

// AppendSACK returns the options with a SACK option behind them. At most 4 blocks fit a header.
func (o Options) AppendSACK(blocks ...SACKBlock) Options {
	o = append(o, byte(OptionSACK), byte(2+len(blocks)*SACKBlockSize))
	for _, b := range blocks {
		o = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(o, uint32(b.Left)), uint32(b.Right))
	}
	return o
}

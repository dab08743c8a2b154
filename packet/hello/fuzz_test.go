package hello

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzRead holds a stream against its own beginnings and against crypto/tls.
func FuzzRead(f *testing.F) {
	for i, s := range corpus(f) {
		if i%8 == 0 {
			f.Add(s.stream)
			f.Add(records(s.stream[recordHeaderSize:], 20))
		}
	}
	for _, test := range badMessages {
		f.Add(record(test.message))
	}
	for _, test := range badStreams {
		f.Add(test.stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		_, err := readEach(t, stream, 1+len(stream)/100)
		var e *Error
		if err != nil && !errors.Is(err, ErrIncomplete) && !errors.As(err, &e) {
			t.Fatalf("Read = %v, want ErrIncomplete or an *Error", err)
		}
		agree(t, stream)
	})
}

// FuzzMessage repairs the length of a message, so that what changes is inside of it, and reads it in records of any size.
func FuzzMessage(f *testing.F) {
	for i, s := range corpus(f) {
		if i%8 == 0 {
			f.Add(s.stream[recordHeaderSize+headerSize:], uint16(i))
		}
	}
	for _, test := range badMessages {
		f.Add(test.message[headerSize:], uint16(1))
	}
	f.Fuzz(func(t *testing.T, content []byte, size uint16) {
		if len(content) > maxRecord {
			return
		}
		whole := message(clientHello, content)
		stream := records(whole, 1+int(size)%maxRecord)
		agree(t, stream)
		h, err := readEach(t, stream, 1+len(stream)/100)
		without, withoutErr := ReadMessage(whole)
		if err != withoutErr {
			t.Fatalf("Read = %v, ReadMessage = %v", err, withoutErr)
		}
		if err == nil {
			if h.Length != len(stream) || without.Length != len(whole) {
				t.Errorf("lengths of %d and %d, want %d and %d", h.Length, without.Length, len(stream), len(whole))
			}
			h.Length = without.Length
			if !equal(h, without) {
				t.Errorf("Read = %+v, ReadMessage = %+v", h, without)
			}
		}
	})
}

// TestAgreesWithCryptoTLS compares hellos made of pieces that are each near a border of the grammar.
func TestAgreesWithCryptoTLS(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	accepted, named := 0, 0
	for range 20000 {
		stream := randomStream(random)
		h, err := Read(stream)
		if err == nil {
			accepted++
			if h.ServerName != "" {
				named++
			}
		}
		agree(t, stream)
		if t.Failed() {
			t.Fatalf("stream: %x", stream)
		}
	}
	t.Logf("%d accepted, %d of them with a name", accepted, named)
	if accepted < 2000 || named < 500 {
		t.Errorf("only %d of 20000 hellos were accepted, %d with a name", accepted, named)
	}
}

func randomStream(random *rand.Rand) []byte {
	pick := func(of ...[]byte) []byte { return of[random.IntN(len(of))] }
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			b.WriteString([]string{"a", "B", "9", ".", "a.", "-", "_", "xn--a", "\x00", "\xff", "*", ":", " ", strings.Repeat("c", 62)}[random.IntN(14-random.IntN(12))])
		}
		return b.String()
	}
	extensions := [][]byte{}
	for range random.IntN(5) {
		extensions = append(extensions, pick(
			serverName(text()), serverName("www.example.net"), hosts(nameEntry(byte(random.IntN(2)), text()), nameEntry(byte(random.IntN(2)), text())),
			alpn("h2"), alpn("h2", text()), alpn(), versions(0x0304, 0x0303), versions(0x0a0a, 0x0300+random.IntN(8)), versions(),
			extension(random.IntN(60)), extension(random.IntN(60), u16(random.IntN(4)), u16(random.IntN(0x400))),
			extension(extECH), extension(extECH, []byte{1}), extension(0xff01, []byte{0}), extension(0x0a0a), extension(extPreSharedKey, u16(0)),
		))
	}
	p := plan{
		version: 0x0300 + random.IntN(6), session: make([]byte, random.IntN(34)), ciphers: make([]byte, 2+random.IntN(30)/29),
		extensions: extensions, tail: make([]byte, random.IntN(20)/19),
	}
	b := p.message()
	if random.IntN(4) == 0 { // any byte behind the random
		b[38+random.IntN(len(b)-38)] = byte(random.IntN(6))
	}
	if random.IntN(4) == 0 {
		cut := 1 + random.IntN(len(b)-1)
		warning := []byte{recordAlert, 3, 1, 0, 2, 1, 90}
		return slices.Concat(pick(nil, nil, nil, warning), record(b[:cut]), pick(nil, nil, nil, warning), records(b[cut:], 1+random.IntN(200)))
	}
	return record(b)
}

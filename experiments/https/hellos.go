package https

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/packet/hello"
	"baton/packet/hello/hellotest"
)

// theEnd is behind what a client says; it stands in the packet of a hello's last bytes.
const theEnd = "\x17 the end of it \x17"

// order is how a client sends the two parts of its hello.
type order int

const (
	inOrder order = iota
	reversed
	twice  // each of its parts
	lossy  // one part is lost, and comes after lostFor; of all other segments both ways, lossShare
	orders = int(lossy) + 1
)

func (o order) String() string { return []string{"in order", "reordered", "duplicated", "lost"}[o] }

const (
	lostFor   = 200 * time.Millisecond // the least retransmission timeout of Linux
	lossShare = 0.01
)

// list is every hello of the corpus in every framing, split at every byte, in every order.
type list struct {
	hellos []framed
	before []int // how many splits there are before each of hellos
	splits int
}

// framed is a hello in records of one length.
type framed struct {
	name    string
	stream  []byte // and theEnd
	hello   int    // its length
	framing string // one of framings
	server  string
	sum     uint64
}

// framings are how hellos are put into records.
var framings = []string{"one record", "records of 1 byte", "records of 5 bytes", "records of 100 bytes", "all but one byte in a record"}

var seed = maphash.MakeSeed() // of sums: clients and servers are in one process

func newList() (*list, error) {
	corpus, err := hellotest.Captures()
	if err != nil {
		return nil, err
	}
	l := &list{}
	for _, c := range corpus {
		h, err := hello.Read(c.Stream)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		for i, size := range []int{0, 1, 5, 100, len(c.Stream) - 6} {
			s := c.Stream
			if size > 0 {
				s = hellotest.Records(s, size)
			}
			whole := append(slices.Clone(s), theEnd...)
			l.hellos = append(l.hellos, framed{name: c.Name, stream: whole, hello: len(s), framing: framings[i], server: h.ServerName, sum: maphash.Bytes(seed, whole)})
			l.before = append(l.before, l.splits)
			l.splits += len(s)
		}
	}
	return l, nil
}

// size is the number of combinations.
func (l *list) size() int { return l.splits * orders }

// stride is a prime: in its steps combinations are visited in an order that samples them evenly.
const stride = 1_000_003

// at is a combination by its number in that order: the hello, where it is split (0: it is not), and the order of its parts.
func (l *list) at(n int) (h *framed, cut int, o order) {
	n = n * stride % l.size()
	i, found := slices.BinarySearch(l.before, n/orders)
	if !found {
		i--
	}
	return &l.hellos[i], n/orders - l.before[i], order(n % orders)
}

// pieces are the parts in the order of their sending.
func (h *framed) pieces(cut int, o order) []piece {
	a, b := piece{0, cut, 0}, piece{cut, len(h.stream), 0}
	if cut == 0 {
		if o == twice {
			return []piece{b, b}
		}
		return []piece{b}
	}
	switch o {
	case reversed:
		return []piece{b, a}
	case twice:
		return []piece{a, a, b, b}
	case lossy:
		if cut%2 == 0 {
			a, b = b, a
		}
		b.after = lostFor
	}
	return []piece{a, b}
}

// names are the hellos' that routes name; others are addresses, as some clients send.
func (l *list) names() []string {
	var names []string
	for _, h := range l.hellos {
		if _, err := netip.ParseAddr(h.server); err != nil && h.server != "" && !slices.Contains(names, h.server) {
			names = append(names, h.server)
		}
	}
	return names
}

// fit are the hellos that are whole in a segment and have a name as routes have it: the kernel reads them.
func (l *list) fit() []*framed {
	var fit []*framed
	named := l.names()
	for i := range l.hellos {
		if h := &l.hellos[i]; h.framing == framings[0] && len(h.stream) <= segmentSize && slices.Contains(named, h.server) &&
			bytes.Contains(h.stream, append([]byte{byte(len(h.server) >> 8), byte(len(h.server))}, h.server...)) {
			fit = append(fit, h)
		}
	}
	return fit
}

// fate is what came of a hello.
type fate int

const (
	right fate = iota
	wrong
	fellThrough // to the default, though it has a name
	refused
	timedOut
	fates = int(timedOut) + 1
)

// judge compares an answer with what the hello's server says. byDefault is the name of the default.
func judge(t *talk, want string, sum uint64, byDefault string) fate {
	name, rest, _ := strings.Cut(string(t.answer), " ")
	switch {
	case string(t.answer) == answerOf(want, sum):
		return right
	case strings.HasSuffix(rest, "\n") && name == byDefault && want != byDefault:
		return fellThrough
	case strings.HasSuffix(rest, "\n"):
		return wrong
	case t.reset, t.ended-t.began < giveUp:
		return refused
	}
	return timedOut
}

func answerOf(name string, sum uint64) string { return fmt.Sprintf("%s %016x\n", name, sum) }

// outcome is what came of the list.
type outcome struct {
	tried  int
	fates  [fates]int
	first  string             // that was not routed right
	failed map[string]float64 // by framing and order
	took   time.Duration
}

// atOnce is how many clients there are at the same time.
const atOnce = 1000

// run has clients say so many combinations. to is the server of a name.
func (l *list) run(ctx context.Context, c *crowd, vip netip.AddrPort, n int, to func(name string) string, byDefault string) (outcome, error) {
	out := outcome{failed: make(map[string]float64)}
	began, i := time.Now(), 0
	for _, o := range []order{inOrder, lossy} {
		c.loss = 0
		if o == lossy {
			c.loss = lossShare
		}
		i = 0
		err := c.drive(ctx, func(waiting int, _ time.Duration) (*talk, bool) {
			for ; i < n && waiting < atOnce; i++ {
				h, cut, how := l.at(i)
				if (how == lossy) != (o == lossy) {
					continue
				}
				i++
				return &talk{to: vip, stream: h.stream, pieces: h.pieces(cut, how), done: func(t *talk) {
					if out.add(judge(t, to(h.server), h.sum, byDefault)) {
						return
					}
					out.failed[h.framing+", "+how.String()]++
					if out.first == "" {
						out.first = fmt.Sprintf("%s, %d bytes in %s, cut at %d, %v: answered %q", h.name, h.hello, h.framing, cut, how, t.answer)
					}
				}}, true
			}
			return nil, i < n
		})
		if err != nil {
			return out, err
		}
	}
	out.took = time.Since(began)
	return out, nil
}

// add reports whether it was routed right.
func (o *outcome) add(f fate) bool {
	o.tried++
	o.fates[f]++
	return f == right
}

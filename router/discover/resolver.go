package discover

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Limits of a lookup.
const (
	answerWithin = 2 * time.Second // of one server
	rounds       = 2               // over all servers
	maxUDP       = 4096            // bytes of an answer over UDP, more than are asked for
)

// resolver asks name servers.
type resolver struct {
	servers []netip.AddrPort // none: those of conf
	conf    string           // resolv.conf
	within  time.Duration
}

// lookup asks the servers in order until one knows. The error is a *Failure; with NXDomain and NoData the answer has a TTL.
func (r *resolver) lookup(ctx context.Context, q question) (answer, error) {
	servers := r.servers
	if len(servers) == 0 {
		servers = resolvConf(r.conf)
	}
	var first error
	for range rounds {
		for _, server := range servers {
			a, err := r.ask(ctx, server, q)
			var f *Failure
			if err == nil || errors.As(err, &f) && (f.Kind == NXDomain || f.Kind == NoData) {
				return a, err
			}
			if ctx.Err() != nil {
				return answer{}, failed(Other, "%s: %v", q, ctx.Err())
			}
			if first == nil {
				first = err
			}
		}
	}
	return answer{}, first
}

// ask asks one server: over UDP, and over TCP if the answer does not fit.
func (r *resolver) ask(ctx context.Context, server netip.AddrPort, q question) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	id := uint16(rand.Uint32())
	query, err := packQuestion(id, q)
	if err != nil {
		return answer{}, failed(Other, "%s: %v", q, err)
	}
	for _, network := range []string{"udp", "tcp"} {
		message, err := exchange(ctx, network, server, query, id, q)
		if err != nil {
			return answer{}, unanswered(q, server, err)
		}
		p, h, _ := answers(message, id, q)
		if h.Truncated && network == "udp" {
			continue
		}
		a, err := readAnswer(&p, h, q)
		var f *Failure
		if errors.As(err, &f) {
			f.Text += fmt.Sprintf(" (says %s)", server)
		}
		return a, err
	}
	return answer{}, failed(Malformed, "%s: %s cuts its answer short over TCP", q, server)
}

func unanswered(q question, server netip.AddrPort, err error) *Failure {
	var timeout net.Error
	kind := Unreachable
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return failed(Timeout, "%s: no answer of %s", q, server)
	}
	if errors.Is(err, errMalformed) {
		kind = Malformed
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return failed(kind, "%s: %s: %v", q, server, err)
}

var errMalformed = errors.New("the answer is not one of DNS to the question")

// exchange sends a query and returns the message that answers it.
func exchange(ctx context.Context, network string, server netip.AddrPort, query []byte, id uint16, q question) ([]byte, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		return exchangeTCP(c, query, id, q)
	}
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	b := make([]byte, maxUDP)
	for { // a forged answer must not end the wait for the true one
		n, err := c.Read(b)
		if err != nil {
			return nil, err
		}
		if _, _, ok := answers(b[:n], id, q); ok {
			return b[:n], nil
		}
	}
}

func exchangeTCP(c net.Conn, query []byte, id uint16, q question) ([]byte, error) {
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	if _, _, ok := answers(b, id, q); !ok {
		return nil, errMalformed
	}
	return b, nil
}

// resolvConf returns the name servers of a resolv.conf, as resolv.conf(5) says: at most three, else one on this host.
func resolvConf(path string) []netip.AddrPort {
	var out []netip.AddrPort
	text, _ := os.ReadFile(path) // without it there is a server on this host, or none
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan() && len(out) < 3; {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53))
		}
	}
	if len(out) == 0 {
		out = append(out, netip.MustParseAddrPort("127.0.0.1:53"))
	}
	return out
}

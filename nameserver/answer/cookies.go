package answer

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/dchest/siphash"
)

// Cookies make and check server cookies (RFC 7873) as RFC 9018 has them, so that servers with the same secret know each other's.
type Cookies struct{ secrets [][2]uint64 } // new ones are made of the first

// NewCookies takes secrets of 16 octets each; without any it makes one.
func NewCookies(secrets ...[16]byte) *Cookies {
	if len(secrets) == 0 {
		var s [16]byte
		_, _ = rand.Read(s[:]) // cannot fail
		secrets = append(secrets, s)
	}
	c := &Cookies{}
	for _, s := range secrets {
		c.secrets = append(c.secrets, [2]uint64{binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:])})
	}
	return c
}

// How old or how far in the future a server cookie may be (RFC 9018, section 4.3).
const (
	cookieAge    = time.Hour
	cookieFuture = 5 * time.Minute
)

// make appends a server cookie: version, time, hash.
func (c *Cookies) make(to, client []byte, from netip.Addr, now time.Time) []byte {
	return c.with(c.secrets[0], to, client, from, uint32(now.Unix()))
}

func (c *Cookies) with(secret [2]uint64, to, client []byte, from netip.Addr, at uint32) []byte {
	var in [32]byte
	b := append(in[:0], client...)
	b = append(b, 1, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, at)
	from = from.Unmap()
	if from.Is4() {
		a := from.As4()
		b = append(b, a[:]...)
	} else {
		a := from.As16()
		b = append(b, a[:]...)
	}
	to = append(to, b[8:16]...)
	return binary.LittleEndian.AppendUint64(to, siphash.Hash(secret[0], secret[1], b))
}

// valid reports whether a cookie option has a server cookie that was made for this client lately.
func (c *Cookies) valid(cookie []byte, from netip.Addr, now time.Time) bool {
	if len(cookie) != cookieFull || cookie[8] != 1 {
		return false
	}
	at := binary.BigEndian.Uint32(cookie[12:])
	age := time.Duration(int32(uint32(now.Unix())-at)) * time.Second
	if age > cookieAge || age < -cookieFuture {
		return false
	}
	for _, s := range c.secrets {
		var made [16]byte
		if subtle.ConstantTimeCompare(c.with(s, made[:0], cookie[:8], from, at), cookie[8:]) == 1 {
			return true
		}
	}
	return false
}

package vips

import (
	"crypto/rand"
	"net/netip"

	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/passthrough"
)

// writeExchange writes a request that user space has answered to the access log.
func (s *Servers) writeExchange(vip netip.AddrPort, mode config.Mode, x *fallback.Exchange) {
	if !s.o.Access.Enabled() {
		return
	}
	rec := recordOfExchange(vip, mode, x)
	rec.Pool = s.o.Snapshot().PoolOf(x.Surrogate)
	s.o.Access.Write([]accesslog.Record{rec})
}

// recordOfExchange is the record of a request that user space has answered. Its bytes are those of the bodies.
func recordOfExchange(vip netip.AddrPort, mode config.Mode, x *fallback.Exchange) accesslog.Record {
	rec := accesslog.Record{
		Time: x.Started, ID: x.ID, Client: x.Client, VIP: vip, Status: x.Status, Surrogate: x.Surrogate, SurrogateAddress: x.Address,
		FromSurrogate: uint64(x.Sent), FirstByte: x.FirstByte, Duration: x.Duration, Served: accesslog.Proxied,
	}
	switch {
	case x.Failed:
		rec.End = accesslog.Failed
	case (x.Broken || x.Status == 0) && x.Gone:
		rec.End = accesslog.ClientRST
	case x.Broken:
		rec.End = accesslog.ServerRST
	}
	switch redirected := x.Status == 302 || x.Status == 307; {
	case x.Surrogate != "":
	case mode == config.Redirect && redirected:
		rec.Served = accesslog.Redirected
	default:
		rec.Served = accesslog.Answered
	}
	if q := x.Request; q != nil {
		rec.Host, rec.Method, rec.Path = []byte(q.Host), []byte(q.Method), []byte(q.RequestURI)
		rec.UserAgent, rec.Referer = []byte(q.UserAgent()), []byte(q.Referer())
		rec.FromClient = uint64(max(q.ContentLength, 0))
		rec.Version = accesslog.HTTP11
		switch {
		case q.ProtoMajor == 2:
			rec.Version = accesslog.HTTP2
		case !q.ProtoAtLeast(1, 1):
			rec.Version = accesslog.HTTP10
		}
	}
	return rec
}

// writePassed writes a session that a socket has passed on to the access log.
func (s *Servers) writePassed(vip netip.AddrPort, x *passthrough.Session) {
	if !s.o.Access.Enabled() {
		return
	}
	rec := accesslog.Record{
		Time: x.Started, Client: x.Client, VIP: vip, Protocol: accesslog.TLS, Host: []byte(x.Name),
		Surrogate: x.Surrogate, SurrogateAddress: x.Address, Pool: s.o.Snapshot().PoolOf(x.Surrogate),
		FromClient: uint64(x.Received), FromSurrogate: uint64(x.Sent), WholeSession: true, Duration: x.Duration, Served: accesslog.Proxied,
	}
	if x.Err != nil {
		rec.End = accesslog.ServerRST
	}
	_, _ = rand.Read(rec.ID[:]) // never fails (crypto/rand)
	s.o.Access.Write([]accesslog.Record{rec})
}

package router

import (
	"net/netip"

	"baton/api"
	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/fallback"
)

// ReopenLogs has the files of the access log opened again, by their names.
func (r *Router) ReopenLogs() { r.access.Reopen() }

func (r *Router) accessLogs() (out []api.RouterAccessLog) {
	lost, _ := r.dp.LostLogs() // 0 if they cannot be read
	for _, s := range r.access.Stats() {
		s.Lost[lostInKernel] = lost
		l := api.RouterAccessLog{Output: s.Output, Written: s.Written, Skipped: s.Skipped, Lost: s.Lost, Waiting: s.Waiting}
		if s.Err != nil {
			l.Error = s.Err.Error()
		}
		out = append(out, l)
	}
	return out
}

// logProxied writes a request that user space has answered.
func (r *Router) logProxied(vip netip.AddrPort, mode config.Mode, x *fallback.Exchange) {
	if !r.access.Enabled() {
		return
	}
	rec := proxiedRecord(vip, mode, x)
	if s := r.current(); s != nil {
		rec.Pool = s.poolOf(x.Surrogate)
	}
	r.access.Write([]accesslog.Record{rec})
}

// proxiedRecord is the record of a request that user space has answered. Its bytes are those of the bodies.
func proxiedRecord(vip netip.AddrPort, mode config.Mode, x *fallback.Exchange) accesslog.Record {
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

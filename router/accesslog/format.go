package accesslog

import (
	"net/netip"
	"strconv"

	"baton/router/config"
)

// format appends a record as an output takes it. One goroutine at a time uses it.
type format interface {
	append(dst []byte, r *Record) []byte
}

func newFormat(f config.LogFormat) format {
	switch f {
	case config.LogCommon, config.LogCombined:
		return &apache{combined: f == config.LogCombined, time: stamp{layout: "[02/Jan/2006:15:04:05 -0700]"}}
	}
	return &jsonLine{time: stamp{layout: "2006-01-02T15:04:05"}}
}

// line is a format with an end of line behind each record.
type line struct{ format }

func (l line) append(dst []byte, r *Record) []byte { return append(l.format.append(dst, r), '\n') }

// apache writes Apache's common and combined formats: "%h %l %u %t \"%r\" %>s %b", and "\"%{Referer}i\" \"%{User-agent}i\"".
type apache struct {
	combined bool
	time     stamp
}

var apacheVersions = [...]string{"", " HTTP/1.0", " HTTP/1.1", " HTTP/2.0", " HTTP/3.0"}

func (a *apache) append(dst []byte, r *Record) []byte {
	dst = appendAddress(dst, r.Client.Addr())
	dst = append(dst, " - - "...)
	dst = a.time.append(dst, r.Time)
	dst = append(dst, " \""...)
	dst = appendEscaped(dst, cut(r.Method, longestToken), &plainToken)
	if len(r.Method) > 0 {
		path, _ := r.path()
		dst = appendEscaped(append(dst, ' '), path, &plainToken)
		dst = append(dst, apacheVersions[min(int(r.Version), len(apacheVersions)-1)]...)
	}
	dst = append(dst, "\" "...)
	if r.Status > 0 {
		dst = strconv.AppendInt(dst, int64(r.Status), 10)
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, ' ')
	if r.FromSurrogate > 0 {
		dst = strconv.AppendUint(dst, r.FromSurrogate, 10)
	} else {
		dst = append(dst, '-')
	}
	if !a.combined {
		return dst
	}
	dst = appendEscaped(append(dst, " \""...), cut(r.Referer, longestPath), &plainQuoted)
	dst = appendEscaped(append(dst, "\" \""...), cut(r.UserAgent, longestPath), &plainQuoted)
	return append(dst, '"')
}

func appendAddress(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, '-')
	}
	return a.Unmap().AppendTo(dst)
}

// jsonLine writes an object with stable keys; those that are not known are left out.
type jsonLine struct{ time stamp }

func (j *jsonLine) append(dst []byte, r *Record) []byte {
	dst = j.time.append(append(dst, `{"time":"`...), r.Time)
	dst = appendDigits(append(dst, '.'), uint32(r.Time.Nanosecond()), 9)
	dst = append(dst, `Z"`...)
	if r.ID != [16]byte{} {
		dst = appendHex(append(dst, `,"request_id":"`...), r.ID[:])
		dst = append(dst, '"')
	}
	dst = appendPeer(dst, `,"client_address":"`, `,"client_port":`, r.Client)
	dst = appendPeer(dst, `,"vip_address":"`, `,"vip_port":`, r.VIP)
	dst = appendText(dst, `,"vip":`, r.VIPName)
	dst = appendWord(dst, `,"protocol":"`, r.Protocol.String())
	dst = j.request(dst, r)
	dst = appendText(dst, `,"surrogate":`, r.Surrogate)
	dst = appendPeer(dst, `,"surrogate_address":"`, `,"surrogate_port":`, r.SurrogateAddress)
	dst = appendText(dst, `,"pool":`, r.Pool)
	dst = strconv.AppendUint(append(dst, `,"bytes_received":`...), r.FromClient, 10)
	dst = strconv.AppendUint(append(dst, `,"bytes_sent":`...), r.FromSurrogate, 10)
	if r.WholeSession {
		dst = append(dst, `,"bytes_of_session":true`...)
	}
	if r.FirstByte > 0 {
		dst = appendSeconds(append(dst, `,"first_byte_seconds":`...), r.FirstByte)
	}
	dst = appendSeconds(append(dst, `,"duration_seconds":`...), r.Duration)
	dst = strconv.AppendUint(append(dst, `,"client_retransmissions":`...), uint64(r.ClientRetransmissions), 10)
	dst = strconv.AppendUint(append(dst, `,"surrogate_retransmissions":`...), uint64(r.SurrogateRetransmissions), 10)
	dst = appendWord(dst, `,"end":"`, r.End.String())
	dst = appendWord(dst, `,"served":"`, r.Served.String())
	dst = appendText(dst, `,"user_agent":`, cut(r.UserAgent, longestPath))
	dst = appendText(dst, `,"referer":`, cut(r.Referer, longestPath))
	return append(dst, '}')
}

func (j *jsonLine) request(dst []byte, r *Record) []byte {
	dst = appendText(dst, `,"host":`, cut(r.Host, longestHost))
	dst = appendText(dst, `,"method":`, cut(r.Method, longestToken))
	path, isCut := r.path()
	dst = appendText(dst, `,"path":`, path)
	if isCut {
		dst = append(dst, `,"path_truncated":true`...)
	}
	if r.Version != NoVersion {
		dst = appendWord(dst, `,"http_version":"`, r.Version.String())
	}
	if r.Status > 0 {
		dst = strconv.AppendInt(append(dst, `,"status":`...), int64(r.Status), 10)
	}
	return dst
}

func appendPeer(dst []byte, address, port string, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return dst
	}
	dst = a.Addr().Unmap().AppendTo(append(dst, address...))
	return strconv.AppendUint(append(append(dst, '"'), port...), uint64(a.Port()), 10)
}

// appendText writes a text of the user or of a stranger, unless it is empty.
func appendText[T string | []byte](dst []byte, key string, s T) []byte {
	if len(s) == 0 {
		return dst
	}
	return appendJSON(append(dst, key...), s)
}

// appendWord writes a word of ours.
func appendWord(dst []byte, key, word string) []byte {
	return append(append(append(dst, key...), word...), '"')
}

func appendHex(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, lowerHex[c>>4], lowerHex[c&15])
	}
	return dst
}

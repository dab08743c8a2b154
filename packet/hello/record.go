package hello

import "encoding/binary"

// Records, RFC 8446 section 5.1.
const (
	recordAlert      = 21
	recordHandshake  = 22
	recordHeaderSize = 5       // type, version, length
	maxRecord        = 1 << 14 // bytes of content without encryption
)

// Handshake messages, RFC 8446 section 4.
const (
	clientHello = 1
	headerSize  = 4 // type, 24 bits of length
)

var (
	errNotTLS        = &Error{NotTLS, UnexpectedMessage, "the first record is not of a handshake"}
	errPlainHTTP     = &Error{PlainHTTP, UnexpectedMessage, "an HTTP request without TLS"}
	errSSLv2         = &Error{SSLv2, ProtocolVersion, "a hello of SSL 2.0"}
	errRecordVersion = &Error{Malformed, ProtocolVersion, "the version of a record is none of 3.0 to 3.3"}
	errInterleaved   = &Error{Malformed, UnexpectedMessage, "a record of another type within the hello"}
	errEmptyRecord   = &Error{Malformed, UnexpectedMessage, "a record of length 0"}
	errLongRecord    = &Error{Malformed, RecordOverflow, "a record of more than 16,384 bytes"}
	errExcess        = &Error{Malformed, UnexpectedMessage, "a record continues behind the hello"}
	errNotHello      = &Error{Malformed, UnexpectedMessage, "the first message is not a ClientHello"}
	errTooLarge      = &Error{TooLarge, IllegalParameter, "a hello of more than 16 KiB"}
)

// framed is where in a stream a hello is.
type framed struct {
	size    int // of the message, with its header
	end     int // of its last record
	records int
}

// frame finds the records of the hello. A fault is reported as soon as its record header, or its byte of the message's
// header, is there.
func frame(stream []byte) (framed, error) {
	var f framed
	var header [headerSize]byte
	have := 0 // bytes of the message in the records before f.end
	for {
		length, err := recordLength(stream[f.end:], f.records == 0)
		if err != nil {
			return f, err
		}
		begin := f.end + recordHeaderSize
		f.end = begin + length
		f.records++
		content := stream[begin:min(f.end, len(stream))]
		if f.size == 0 {
			n := have + copy(header[have:], content)
			if f.size, err = messageSize(header[:n]); err != nil {
				return f, err
			}
		}
		have += length
		switch {
		case f.size > 0 && have > f.size:
			return f, errExcess // RFC 8446 section 5.1: keys may change behind a hello
		case f.end > len(stream):
			return f, ErrIncomplete
		case have == f.size:
			return f, nil
		}
	}
}

// message gives the hello without its header: a part of the stream, or a copy when it is in several records.
func (f *framed) message(stream []byte) []byte {
	if f.records == 1 {
		return stream[recordHeaderSize+headerSize : f.end : f.end]
	}
	whole := make([]byte, 0, f.size)
	for rest := stream[:f.end]; len(rest) > 0; {
		end := recordHeaderSize + int(binary.BigEndian.Uint16(rest[3:]))
		whole = append(whole, rest[recordHeaderSize:end]...)
		rest = rest[end:]
	}
	return whole[headerSize:]
}

// recordLength reads the header of a record.
func recordLength(b []byte, first bool) (int, error) {
	if len(b) > 0 && b[0] != recordHandshake {
		if first {
			return 0, stranger(b)
		}
		return 0, errInterleaved
	}
	if len(b) < recordHeaderSize {
		return 0, ErrIncomplete
	}
	length := int(binary.BigEndian.Uint16(b[3:]))
	switch {
	case b[1] != 3 || b[2] > 3:
		return 0, errRecordVersion
	case length == 0:
		return 0, errEmptyRecord
	case length > maxRecord:
		return 0, errLongRecord
	}
	return length, nil
}

// messageSize reads the header of a handshake message: its length, with the header, 0 while that is not there.
func messageSize(b []byte) (int, error) {
	if len(b) > 0 && b[0] != clientHello {
		return 0, errNotHello
	}
	if len(b) < headerSize {
		return 0, nil
	}
	size := headerSize + int(b[1])<<16 + int(b[2])<<8 + int(b[3])
	if size > MaxBytes {
		return 0, errTooLarge
	}
	return size, nil
}

var (
	// The beginnings of HTTP requests, the last that of HTTP/2 (RFC 9113 section 3.4).
	requests = [...]string{"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "TRACE ", "PRI "}

	// Hellos in the form of SSL 2.0, behind 16 bits of length: the type, the version (RFC 5246 appendix E.2).
	older = [...]string{"\x01\x00\x02", "\x01\x03"}
)

// stranger names what begins with bytes that are not of a TLS handshake.
func stranger(b []byte) error {
	known, fault := requests[:], errPlainHTTP
	if b[0]&0x80 != 0 {
		known, fault, b = older[:], errSSLv2, b[min(2, len(b)):]
	}
	for _, begin := range known {
		switch n := min(len(b), len(begin)); {
		case string(b[:n]) != begin[:n]:
		case n < len(begin):
			return ErrIncomplete
		default:
			return fault
		}
	}
	return errNotTLS
}

package model

// Framing is the state of one direction of a session in its messages; enum framing of bpf/session/splice.h.
type Framing uint8

// The states.
const (
	Quiet Framing = iota
	Head
	Body
	InChunks
	Done
	Close
	Opaque
)

// giveUp: the end of the response is no longer known. A client whose requests are held stays limited to the current one.
func (l *Leg) giveUp() {
	l.response = Opaque
	if !l.hold {
		l.request = Opaque
	}
}

func (l *Leg) quiet() bool { return l.request == Quiet && l.response == Quiet }

func (l *Leg) settle() {
	if l.request == Done && l.response == Done {
		l.request, l.response = Quiet, Quiet
	}
}

func (l *Leg) beginRequest(r *Rules, head Unit, fresh uint32) {
	l.clientRequests = min(l.clientRequests+1, 2) // only "one" and "more" matter
	length := uint32(1 + head.N())
	if length < fresh {
		if r.PipelinedIsOpaque {
			l.giveUp()
			return
		}
		length = fresh
	}
	l.requestLeft = uint8(length - fresh)
	l.request = Body
	if l.requestLeft == 0 {
		l.request = Done
	}
	l.response = Head
}

func (l *Leg) moreRequest(fresh uint32) {
	if l.request == Body && fresh <= uint32(l.requestLeft) {
		l.requestLeft -= uint8(fresh)
		if l.requestLeft == 0 {
			l.request = Done
		}
		l.settle()
		return
	}
	l.giveUp()
}

func (l *Leg) moreResponse(fresh uint32) {
	if fresh > uint32(l.responseLeft) {
		l.giveUp()
		return
	}
	l.responseLeft -= uint8(fresh)
	if l.responseLeft == 0 {
		l.response = Done
	}
	l.settle()
}

func (l *Leg) beginResponse(p *Packet) {
	head, body := p.Data[0], p.Len()-1
	switch head.Coding() {
	case Length:
		l.response, l.responseLeft = Body, uint8(head.Body())
		l.moreResponse(body)
	case Chunked:
		l.response = InChunks
		l.walkChunks(p, 1)
	case UntilClose:
		l.response = Close
		l.noReuse = true
	}
}

func (l *Leg) walkChunks(p *Packet, from uint32) {
	for i := from; i < p.Len(); i++ {
		switch p.Data[i].Kind() {
		case ResponseBody:
		case LastChunk:
			if i+1 < p.Len() {
				l.giveUp()
				return
			}
			l.response = Done
			l.settle()
		default:
			l.giveUp()
			return
		}
	}
}

package worker

import "baton/relay/prologue"

// guest is a client end that is told what becomes of its server: a trunk.
type guest struct {
	probe bool
}

func (g *guest) granted(a prologue.Answer) []byte { return a.Append(nil) }
func (g *guest) refused(a prologue.Answer) []byte { return a.Append(nil) }

package balance

import "sync"

// inbox is what has happened, in order: each is a change of what the loop owns, and made by it.
type inbox struct {
	wake chan struct{} // of one: there is something

	mu   sync.Mutex
	list []func()
}

func newInbox() inbox { return inbox{wake: make(chan struct{}, 1)} }

// put never waits.
func (i *inbox) put(f func()) {
	i.mu.Lock()
	i.list = append(i.list, f)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

func (i *inbox) take() []func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.list
	i.list = nil
	return list
}

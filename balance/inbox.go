package balance

import "sync"

// inbox queues events in order. Each is a function that changes the loop's state and runs in the loop.
type inbox struct {
	wake chan struct{} // capacity 1: there are events

	mu   sync.Mutex
	list []func()
}

func newInbox() inbox { return inbox{wake: make(chan struct{}, 1)} }

// put never blocks.
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

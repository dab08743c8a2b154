package router

import "testing"

// TestQueuesAreMadeTogether: queues that exist keep their legs; a name given twice is one queue.
func TestQueuesAreMadeTogether(t *testing.T) {
	k, f := newRig(t), families[0]
	k.must(k.MakeQueues([]LegQueue{{1, f.class(), BandFresh}}))
	k.idle(3, f, func(*routerSplice) {})
	all := []LegQueue{{2, f.class(), BandFresh}, {2, f.class(), BandFresh}}
	for surrogate := range uint16(200) {
		all = append(all, LegQueue{surrogate, f.class(), BandFresh}, LegQueue{surrogate, f.class(), BandNearest})
	}
	k.must(k.MakeQueues(all))
	for _, q := range all {
		if !k.HasQueue(q.Surrogate, q.Class, q.Band) {
			t.Fatalf("no queue %+v", q)
		}
	}
	if number, ok, err := k.PopIdle(1, f.class(), BandFresh); number != 3 || !ok || err != nil {
		t.Errorf("leg %d, %t, %v", number, ok, err)
	}
	k.must(k.PushIdle(2, f.class(), BandFresh, 5))
	for key, q := range k.queues.open { // the next process opens them again
		k.must(q.Close())
		delete(k.queues.open, key)
	}
	if number, ok, err := k.PopIdle(2, f.class(), BandFresh); number != 5 || !ok || err != nil {
		t.Errorf("leg %d, %t, %v of the queue that was named twice", number, ok, err)
	}
}

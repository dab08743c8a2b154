package experiments

import "context"

// judgeLab asks the lab's self-test whether emulated links do on this machine what they promise. nil: it was not asked.
func judgeLab(context.Context) (*LabVerdict, error) {
	return nil, nil
}

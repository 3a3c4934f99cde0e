package scheduler

// signal wakes its receiver, once for however many times it was given meanwhile.
type signal chan struct{} // capacity 1

func (s signal) give() {
	select {
	case s <- struct{}{}:
	default: // it is given already
	}
}

package scheduler

import "context"

// signal wakes its receiver, once for however many times it was given meanwhile.
type signal chan struct{} // capacity 1

func (s signal) give() {
	select {
	case s <- struct{}{}:
	default: // it is given already
	}
}

// asks has something done, and waits for the answer.
type asks chan chan<- bool

// ask returns the answer once what was asked for is done; false: the context ended before.
func (a asks) ask(ctx context.Context) (answer bool) {
	done := make(chan bool, 1)
	select {
	case a <- done:
	case <-ctx.Done():
		return false
	}
	select {
	case answer = <-done:
	case <-ctx.Done():
	}
	return answer
}

// waiting takes what is asked just now, by any number of goroutines.
func (a asks) waiting() (all []chan<- bool) {
	for {
		select {
		case one := <-a:
			all = append(all, one)
		default:
			return all
		}
	}
}

package protocol

import "fmt"

// fairRounds bounds the rounds, in each of which every task takes a step or time passes, that a sweep needs without
// further faults until all trials have ended and all tasks have stopped.
const fairRounds = 60

// comesToEnd returns an error text if the sweep does not reach its end from s on.
func (m sharing) comesToEnd(s shared) (wrong string) {
	m.fair, s.faults = true, 0
	for range fairRounds {
		var moved bool
		if s, moved, wrong = m.round(s); !moved || wrong != "" {
			break
		}
	}
	for n, trial := range s.trials {
		if !trial.result && !s.cancelled && wrong == "" {
			wrong = fmt.Sprintf("trial %d is lost: it has no result after %d rounds without faults", n, fairRounds)
		}
	}
	for i, t := range s.tasks {
		if t.doing != Stop && wrong == "" {
			wrong = fmt.Sprintf("task %d has not stopped after %d rounds without faults", i, fairRounds)
		}
	}
	for n, trial := range s.trials {
		if trial.full && wrong == "" {
			wrong = fmt.Sprintf("a checkpoint of trial %d is left, and the sweep has ended", n)
		}
		if trial.made > 0 && !trial.result && wrong == "" {
			if last := trial.claims[trial.made-1]; last.living && !last.released {
				wrong = fmt.Sprintf("a claim of trial %d is held, and the sweep has ended", n)
			}
		}
	}
	return wrong
}

// round lets every task take two steps, one of which may be a heartbeat, and lets time pass if it may.
func (m sharing) round(s shared) (then shared, moved bool, wrong string) {
	for _, who := range []int8{2, 1, 0, 2, 1, 0, -1} {
		taken := false
		from := s
		m.next(from, func(by step, then shared, w string) {
			if by.who != who || taken {
				return
			}
			s, taken, moved = then, true, true
			if wrong == "" {
				wrong = w
			}
		})
	}
	return s, moved, wrong
}

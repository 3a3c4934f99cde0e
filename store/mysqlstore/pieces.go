package mysqlstore

import "iter"

// pieceBytes is how long the texts of one statement are together, so that it fits
// into the smallest max_allowed_packet that is usual, 1 MB, also when they are
// escaped or written in hexadecimal.
const pieceBytes = 384 << 10

// pieces are the rows in pieces that fit into one statement each: at most so many
// rows, and as many bytes as a statement may have.
func pieces[T any](rows []T, most int, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(rows) > 0 {
			n, bytes := 1, size(rows[0])
			for ; n < min(len(rows), most) && bytes+size(rows[n]) <= pieceBytes; n++ {
				bytes += size(rows[n])
			}
			if !yield(rows[:n:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

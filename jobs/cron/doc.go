// Package cron answers when a cron expression is due: the next instant after one, and the last before one. It reads
// three dialects, keeps to one time zone per expression, and says what happens when that zone's clocks are changed. It
// starts nothing and knows nothing of jobs.
//
//	e, err := cron.Parse("0 0 2 * * MON-FRI", cron.In(berlin))
//	next := e.Next(time.Now())
//
// # Dialects
//
//	                  Unix                  Spring                 Quartz
//	fields            5                     6                      6 or 7
//	first field       minutes               seconds                seconds
//	year              -                     -                      1970-2099, optional
//	Sunday            0, 7, SUN             0, 7, SUN              1, SUN
//	both day fields   OR, see below         AND                    one of them must be ?
//	L L-n LW nW       -                     yes                    yes, and L-nW; not in a list
//	FRIL FRI#2        -                     yes                    yes; not in a list
//	22-2, SAT-MON     -                     -                      yes, on over the end
//	macros            yes                   yes                    -
//
// Auto, the default, takes five fields for Unix and six for Spring. The same text can mean different days: "0 0 9 ? * 2"
// is Tuesday in Spring and Monday in Quartz. So Quartz must be named.
//
// All dialects have *, lists (1,15), ranges (9-17), steps (*/15, 9-17/2, and 5/15 which goes on to the end of the
// field), and names of three letters for months and weekdays in any case. "?" means "*" in a day field. Fields are
// separated by blanks or tabs. "-" alone is an expression that is never due.
//
// The macros are @hourly, @daily, @midnight, @weekly (Sunday 00:00), @monthly, @yearly and @annually.
//
// Unix joins its day fields as Vixie cron does. A field that starts with "*" or "?" does not restrict by itself, and both
// must hold; so "*/2" in one of them means AND. When neither starts so, a day that either names is enough: "0 0 13 * FRI"
// is every 13th and every Friday.
//
// In a day-of-month field L is the last day, L-3 three days before it, LW the last day from Monday to Friday, and 15W
// that which is nearest to the 15th without leaving the month. In a day-of-week field FRIL is the last Friday of the
// month and FRI#2 the second. A month without such a day goes without.
//
// # When the clocks are changed
//
// Once, the default, asks one question: is the hour field full, taking all of 0 to 23?
//
//   - If it is, the expression is an interval. It matches every instant at which the wall clock of the zone matches:
//     "0 */15 * * * *" runs every real quarter of an hour, through both passes of a repeated hour and straight across
//     a skipped one. Where the clocks change by half an hour, one interval of an hourly job is half an hour off.
//   - If it is not, the expression is a list of times of day, each of which is due once on its day. Of a repeated hour
//     only the first pass counts. A time that is skipped is due when it would have been without the change, so where
//     02:00 to 03:00 is skipped, 02:30 runs at 03:30 summer time. Times keep their distance and none is lost; running
//     all of them at the end of the gap would pile them up. If 03:30 is due anyway, the two are one.
//
// These rules look at one instant at a time. The set of matching instants does not depend on where a search starts, so
// any two processes agree on it.
//
// Native gives what the dialect's own engine gives, Spring Framework 7 or Quartz 2.3.2, with its oddities. Next is the
// engine's answer to the same question; the engines' answers can depend on the question near a change:
//
//   - Spring runs twice what falls in a repeated hour, and skips what falls in a skipped one.
//   - Quartz runs only in the second pass of a repeated hour, so that even a job of every second rests for an hour, and
//     skips what falls in a skipped one.
//   - Where a change is not of whole hours (Lord Howe Island), or is at midnight (Havana, Azores, Nuuk), both may leave
//     out more than that.
//
// Unix has no engine of its own. Native there means that the wall clock alone decides: twice in a repeated hour, never
// in a skipped one.
//
// # Where Native differs from the engines
//
// Every answer of Next is strictly later than the question and is a time the expression names. An engine's answer that
// is not is replaced by the next instant that matches. That is so for:
//
//   - L-28 to L-31 in Spring. In a month too short for it Spring counts on into the month before; it then returns the
//     same few instants endlessly, some of them on a weekday the expression excludes. Here L-28 to L-30 skip such a month.
//     L-31, which no month has, is the day that Spring itself takes for a match: the one with the number of days that the
//     month before has, or the month's last. testdata/cron_deviations.tsv lists the vectors concerned.
//   - Spring in a zone whose clocks change by half an hour, where it can come back to an instant that is over.
//
// And where an engine's answer depends on the day the search began:
//
//   - 1W in Spring, in a month that begins on a Saturday. Monday the 3rd is due here. Spring misses it if its search
//     comes by Sunday the 2nd, as it does with SUN but not SAT in day-of-week.
//   - 29W to 31W in Spring, in a month that ends the day before. Spring takes a last Friday if asked on that very day.
//   - LW, L, L-n and FRIL in Spring on a date that a zone left out (Apia, 30 December 2011). Spring takes the next day.
//
// Some text that an engine accepts is refused, because the engine ignores a part of it:
//
//   - Quartz: W, L or # in a list, a step after a name, a step of 0, text after a complete value, empty list items, more
//     than seven fields, years outside 1970-2099.
//   - Spring: L-n with n above 31, ? in a list, a plus sign before a number.
//
// # Bounds
//
// Instants lie in the years 1970 to 2199 and are whole seconds in UTC; Quartz' year field ends in 2099. Outside Next and
// Prev return the zero time. No search is longer than that, none allocates, and an expression for which there is no day
// at all, such as "0 0 0 30 2 *", is recognised by Parse.
package cron

package jobs

// The text of states and policies is their name, in JSON and wherever else they are
// encoded. Zero is a name for policies; as a state it is the empty text. A value that
// is not known is written as String shows it, and not read.

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) {
	if s == 0 {
		return nil, nil
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*s = 0
		return nil
	}
	*s, err = ParseState(string(text))
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (m Misfire) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Misfire) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMisfire(string(text))
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (r Recover) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Recover) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRecover(string(text))
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *Overlap) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOverlap(string(text))
	return err
}

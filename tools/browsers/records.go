package main

import (
	"errors"
	"fmt"
	"strings"
)

// recordID is the id of the one record of feedback that the server holds.
const recordID = "0199f2d1-5d0e-7a7c-8f55-9b9a6d1f2c33"

const (
	record = `{"id":"` + recordID + `","project_id":"acme/app","weave_ref":"weave:///acme/app/call/x","feedback_type":"note","payload":{"keep":"me"}}`
	rolled = `{"split":"train","step":1,"trajectory_groups":[{"trajectories":[{"messages_and_choices":[{"role":"user","content":"hi"},` +
		`{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"ho"}}],"reward":1.0,"metrics":{},"metadata":{},"logs":[]}]}]}`
	every = `{"project_id":"acme/app","query":{"$expr":{"$eq":[{"$literal":1},{"$literal":1}]}}}`
)

// seed writes a record of feedback and a trajectory.
func (s *server) seed() error {
	err := s.ask200(new(string), "POST", "/feedback/create", record)
	return errors.Join(err, s.ask200(new(string), "POST", "/v1/preview/models/agent/log", rolled))
}

// untouched returns an error if there is anything but what seed wrote.
func (s *server) untouched() error {
	var found, logs string
	err := s.ask200(&found, "POST", "/feedback/query", every)
	if err = errors.Join(err, s.ask200(&logs, "GET", "/v1/preview/models/agent/logs", "")); err != nil {
		return err
	}
	if strings.Count(found, `"payload":`) != 1 || !strings.Contains(found, recordID) || !strings.Contains(found, `{"keep":"me"}`) {
		return fmt.Errorf("feedback is now %s", found)
	}
	if strings.Count(logs, `"trajectories":`) != 1 {
		return fmt.Errorf("the logs of trajectories are now %s", logs)
	}
	return nil
}

// rebind makes the name of the hostile page lead to weir, or back to the page.
func (s *server) rebind(bound bool) {
	s.mu.Lock()
	s.bound = bound
	s.mu.Unlock()
}

// The project, "team/project", that feedback of this browser belongs to.

const slot = 'weir-project'
export const standard = 'local/chat'

export const project = {
  get: () => localStorage.getItem(slot) || standard,
  chosen: () => localStorage.getItem(slot) ?? '', // '' if the user has chosen none
  set: value => { value && value !== standard ? localStorage.setItem(slot, value) : localStorage.removeItem(slot) },
}

// reference names the answer with an id in feedback.
export const reference = (answer, of = project.get()) => `weir:///${of}/call/${answer}`

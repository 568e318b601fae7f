// Entry.
export default function Entry() {
  return <h1>Entry</h1>;
}
